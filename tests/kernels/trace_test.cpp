// What a kernel call reports to a listener.
#include "core/tensor/tensor.h"
#include "kernels/catalogue.h"
#include "kernels/device/cuda_module.h"
#include "platform/trace.h"
#include "tests/on_gpu.h"

#include <dlfcn.h>
#include <doctest/doctest.h>

#include <cstdlib>
#include <string>
#include <vector>

using namespace booster;
using kernels::Span;

namespace {

std::vector<Span> heard;

// Returns the spans of `work`.
template <class Work>
std::vector<Span> spans_of(Work&& work) {
  heard.clear();
  kernels::trace_listener = [](const Span& span) { heard.push_back(span); };
  work();
  kernels::trace_listener = nullptr;
  return heard;
}

const kernels::Table& table() { return kernels::on({}); }

}  // namespace

TEST_CASE("a kernel call is one span with its FLOPs, bytes and dtype") {
  const Tensor a = ones({3, 5}, {DType::bf16}), b = ones({5, 7}, {DType::bf16});
  const Tensor y = empty({3, 7}, {DType::f32});
  const auto spans = spans_of([&] { table().matmul(y.view(), a.view(), b.view(), 0); });
  REQUIRE(spans.size() == 1);  // a small product runs another kernel inside, included here
  CHECK(spans[0].name == std::string("matmul"));
  CHECK(spans[0].flop == 2 * 3 * 5 * 7);
  CHECK(spans[0].bytes == 2 * (15 + 35) + 4 * 21);
  CHECK(spans[0].dtype == std::string("bf16"));
  CHECK(spans[0].end >= spans[0].begin);
}

TEST_CASE("attention and convolutions count the FLOPs of their products") {
  const Tensor q = ones({2, 3, 8, 16}), k = ones({2, 3, 4, 16}), log_sum = empty({2, 3, 8, 2});
  const Tensor out = empty_like(q), dk = empty_like(k), dv = empty_like(k), dq = empty_like(q);
  const double forward = 2 * 2.0 * 2 * 3 * 8 * 4 * 16;
  auto spans = spans_of([&] {
    table().attention(out.view(), log_sum.view(), q.view(), k.view(), k.view(), {}, 1, false, 0,
                      {});
    table().attention_backward(dq.view(), dk.view(), dv.view(), q.view(), q.view(), k.view(),
                               k.view(), out.view(), log_sum.view(), {}, 1, false, 0, {});
  });
  REQUIRE(spans.size() == 2);
  CHECK(spans[0].flop == forward);
  CHECK(spans[1].flop == 2 * forward);

  const Tensor x = ones({2, 4, 9, 9}), weight = ones({6, 2, 3, 3}), y = empty({2, 6, 7, 7});
  const kernels::Window2d window{.kernel = {3, 3}, .groups = 2};
  const Tensor dx = empty_like(x), dweight = empty_like(weight);
  spans = spans_of([&] {
    table().conv2d(y.view(), x.view(), weight.view(), {}, window);
    table().conv2d_backward_input(dx.view(), y.view(), weight.view(), window);
    table().conv2d_backward_weight(dweight.view(), {}, y.view(), x.view(), window);
  });
  REQUIRE(spans.size() == 3);
  for (const Span& span : spans) CHECK(span.flop == 2.0 * (2 * 6 * 7 * 7) * (2 * 3 * 3));
}

TEST_CASE("elementwise kernels name their function; broadcast operands count once") {
  const Tensor a = ones({10, 4}), row = ones({4}), y = empty({10, 4});
  const auto spans = spans_of([&] {
    table().unary(kernels::UnaryOp::relu, y.view(), a.view());
    table().binary(kernels::BinaryOp::mul, y.view(), a.view(),
                   untracked::expand(row, {10, 4}).view());
  });
  REQUIRE(spans.size() == 2);
  CHECK(spans[0].detail == std::string("relu"));
  CHECK(spans[0].flop == 0);
  CHECK(spans[1].detail == std::string("mul"));
  CHECK(spans[1].bytes == 4 * (40 + 40 + 4));
}

TEST_CASE("a scope is a span; nothing is told without a listener or to one that came later") {
  const auto spans = spans_of([] {
    const kernels::TraceScope outer("outer", kernels::SpanKind::phase, 12);
    const kernels::TraceScope inner("inner", kernels::SpanKind::op);
  });
  REQUIRE(spans.size() == 2);
  CHECK(spans[0].name == std::string("inner"));
  CHECK(spans[1].bytes == 12);
  CHECK(spans[1].begin <= spans[0].begin);
  CHECK(spans[1].end >= spans[0].end);

  kernels::trace_listener = nullptr;
  {
    const kernels::TraceScope silent("silent", kernels::SpanKind::op);
    CHECK(spans_of([] { ones({3}); }).size() == 1);  // the fill
    kernels::trace_listener = [](const Span& span) { heard.push_back(span); };
  }
  kernels::trace_listener = nullptr;
  CHECK(heard.size() == 1);
}

namespace {

std::string drawn;  // "+forward +unary relu - -"

constexpr kernels::RangeMarker pen = {
    [](const char* name) { drawn += std::string("+") + name + " "; }, [] { drawn += "- "; }};

// Runs a phase with this table's kernels; matmul_loop runs within matmul.
void work_in_a_phase(const kernels::Table& there, const Tensor& a, const Tensor& y) {
  const kernels::TraceScope phase("forward", kernels::SpanKind::phase);
  there.unary(kernels::UnaryOp::relu, y.view(), a.view());
  there.matmul(y.view(), a.view(), a.view(), 0);
}

}  // namespace

TEST_CASE("a marker is told when kernels and scopes begin and end, and needs no listener") {
  const Tensor a = ones({4, 4}), y = empty({4, 4});
  drawn.clear();
  kernels::range_marker = &pen;
  work_in_a_phase(table(), a, y);
  {
    const kernels::TraceScope begun("begun", kernels::SpanKind::op);
    kernels::range_marker = nullptr;  // open ranges are closed nevertheless
  }
  work_in_a_phase(table(), a, y);
  CHECK(drawn == "+forward +unary relu - +matmul - - +begun - ");
}

TEST_CASE("GPU: kernels and phases are ranges of NVTX" * on_gpu()) {
  const Tensor a = ones({4, 4}, {.device = gpu}), y = empty_like(a);
  const kernels::RangeMarker* const nvtx = kernels::cuda_module()->ranges;
  REQUIRE(nvtx);
  // Meson runs this with and without BOOSTER_NVTX.
  CHECK(kernels::range_marker == (std::getenv("BOOSTER_NVTX") ? nvtx : nullptr));
  using Told = const char* (*)();
  const char* const file = std::getenv("BOOSTER_CUDA_MODULE");
  void* const module = file ? dlopen(file, RTLD_NOW | RTLD_NOLOAD) : nullptr;
  const auto told = module ? reinterpret_cast<Told>(dlsym(module, "cuda_on_host_ranges")) : nullptr;
  const size_t before = told ? std::string(told()).size() : 0;
  const auto* was = kernels::range_marker.exchange(nvtx);
  work_in_a_phase(kernels::on(gpu), a, y);
  kernels::range_marker = was;
  if (!told) return;  // a real GPU, whose tools listen elsewhere
  CHECK(std::string(told()).substr(before) == "forward/unary relu\nforward/matmul\nforward\n");
}

TEST_CASE("GPU: the device's times are of the kernels, in their order" * on_gpu()) {
  const Tensor a = ones({300, 100}, {.device = gpu}), y = empty_like(a);
  kernels::device_synchronize(gpu);
  const int64_t begin = kernels::trace_clock();
  kernels::gpu_times_wanted = true;
  const auto spans = spans_of([&] {
    for (int i = 0; i < 5; ++i) kernels::on(gpu).unary(kernels::UnaryOp::exp, y.view(), a.view());
  });
  kernels::gpu_times_wanted = false;
  const auto unwanted =
      spans_of([&] { kernels::on(gpu).unary(kernels::UnaryOp::exp, y.view(), a.view()); });
  const kernels::GpuTimes times = kernels::cuda_module()->take_times();
  const int64_t end = kernels::trace_clock();
  REQUIRE(spans.size() == 5);
  REQUIRE(times.times.size() == 5);
  CHECK(unwanted[0].gpu_time == -1);
  constexpr int64_t microsecond = 1000;  // rounding of CUDA's times
  for (size_t i = 0; i < 5; ++i) {
    CHECK(spans[i].gpu_time == times.first + static_cast<int64_t>(i));
    const auto [device, from, until] = times.times[i];
    CHECK(device == 0);
    CHECK(from >= spans[i].begin - microsecond);
    CHECK(until > from);
    CHECK(until <= end);
    if (i > 0) CHECK(from >= times.times[i - 1].end - microsecond);
  }
  CHECK(times.times[0].begin >= begin - microsecond);
  CHECK(kernels::cuda_module()->take_times().times.empty());
}
