// Prints milliseconds of attention, forward and backward. The shapes are one layer of ViT-B/16
// (batch 8), of ViT-Ti/16 (batch 16) and of causal language models. FLOPs count what causal queries
// see. Each time is the fastest of several runs.
// peers/attention.py prints the same for PyTorch.
#include "kernels/catalogue.h"
#include "kernels/device/memory.h"

#include <chrono>
#include <cstdio>
#include <cstring>

using namespace booster;
using kernels::View;

namespace {

struct Shape {
  const char* name;
  int64_t batch, heads, tokens = 197, head_size = 64;
  bool causal = false;
  int runs = 50;
};

// Memory allocated like a tensor's.
struct Storage {
  explicit Storage(int64_t bytes) : bytes(bytes), data(kernels::device_allocate({}, bytes)) {}
  ~Storage() { kernels::device_free({}, data); }
  Storage(const Storage&) = delete;
  View flat(DType dtype) const { return {data, dtype, {}, 1, {bytes / size_of(dtype)}, {1}}; }
  int64_t bytes;
  void* data;
};

// Returns one of the `parts` tensors in a Linear's packed output, as (batch, heads, tokens,
// head_size).
View part_of(const Storage& storage, DType dtype, const Shape& shape, int part, int parts) {
  const int64_t width = shape.heads * shape.head_size;
  View view{static_cast<char*>(storage.data) + part * width * size_of(dtype), dtype, {}, 4, {}, {}};
  const int64_t sizes[] = {shape.batch, shape.heads, shape.tokens, shape.head_size};
  const int64_t strides[] = {shape.tokens * parts * width, shape.head_size, parts * width, 1};
  std::memcpy(view.shape, sizes, sizeof sizes);
  std::memcpy(view.strides, strides, sizeof strides);
  return view;
}

template <class F>
double least_milliseconds(int runs, F&& f) {
  double least = 1e9;
  for (int i = 0; i < runs; ++i) {
    const auto start = std::chrono::steady_clock::now();
    f();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
    least = took.count() < least ? took.count() : least;
  }
  return least;
}

void measure(const Shape& shape, DType dtype) {
  const int64_t tokens = shape.tokens, head_size = shape.head_size;
  const bool causal = shape.causal;
  const int64_t bytes = shape.batch * tokens * shape.heads * head_size * size_of(dtype);
  const Storage qkv(3 * bytes), out(bytes), dqkv(3 * bytes), g(bytes);
  const Storage log_sum(2 * shape.batch * shape.heads * tokens * size_of(DType::f32));
  const auto& table = kernels::on({});
  table.normal(qkv.flat(dtype), 0, 1, {1, 0});
  table.normal(g.flat(dtype), 0, 1, {2, 0});
  const View sums{log_sum.data,
                  DType::f32,
                  {},
                  4,
                  {shape.batch, shape.heads, tokens, 2},
                  {shape.heads * tokens * 2, tokens * 2, 2, 1}};
  View x[3], d[3];
  for (int i = 0; i < 3; ++i) {
    x[i] = part_of(qkv, dtype, shape, i, 3);
    d[i] = part_of(dqkv, dtype, shape, i, 3);
  }
  const View y = part_of(out, dtype, shape, 0, 1), dy = part_of(g, dtype, shape, 0, 1);
  const double forward = least_milliseconds(
      shape.runs, [&] { table.attention(y, sums, x[0], x[1], x[2], {}, 0.125, causal, 0, {}); });
  const double backward = least_milliseconds(shape.runs, [&] {
    table.attention_backward(d[0], d[1], d[2], dy, x[0], x[1], x[2], y, sums, {}, 0.125, causal, 0,
                             {});
  });
  const double pairs = causal ? 0.5 * double(tokens * (tokens + 1)) : double(tokens * tokens);
  const double product = 2e-6 * pairs * double(shape.batch * shape.heads * head_size);
  std::printf("%-25s %-4s forward %7.2f ms (%5.0f GFLOP/s)  backward %7.2f ms (%5.0f GFLOP/s)\n",
              shape.name, name_of(dtype), forward, 2 * product / forward, backward,
              5 * product / backward);
}

}  // namespace

int main() {
  std::printf("CPU variant %s\n", kernels::cpu_variant().c_str());
  const Shape shapes[] = {{"ViT-B/16 batch 8", 8, 12},
                          {"ViT-Ti/16 batch 16", 16, 3},
                          {"causal 4 x 12 x 1024 x 64", 4, 12, 1024, 64, true, 5},
                          {"causal 1 x 8 x 2048 x 128", 1, 8, 2048, 128, true, 5}};
  for (const Shape& shape : shapes)
    for (const DType dtype : {DType::f32, DType::bf16}) measure(shape, dtype);
}
