// Tensors exchanged with other libraries: the same values in the same memory, which lives as long
// as it is needed.
#include "core/tensor/exchange/dlpack.h"

#include "core/tensor/capture/captured_work.h"
#include "kernels/catalogue.h"
#include "kernels/device/cuda_module.h"
#include "kernels/device/memory.h"
#include "tests/draws.h"
#include "tests/on_gpu.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <numeric>
#include <random>
#include <thread>

using namespace booster;
using namespace booster::dlpack;

namespace {

// Another library's tensor; counts how often it is deleted.
struct Foreign {
  explicit Foreign(DLDataType type, std::vector<int64_t> sizes, std::vector<int64_t> steps = {},
                   size_t bytes = 4096)
      : memory(bytes / 8), shape(std::move(sizes)), strides(std::move(steps)) {
    managed.dl_tensor.data = memory.data();
    managed.dl_tensor.device = {kDLCPU, 0};
    managed.dl_tensor.ndim = static_cast<int32_t>(shape.size());
    managed.dl_tensor.dtype = type;
    managed.dl_tensor.shape = shape.data();
    managed.dl_tensor.strides = strides.empty() ? nullptr : strides.data();
    managed.manager_ctx = this;
    managed.deleter = [](DLManagedTensorVersioned* self) {
      ++static_cast<Foreign*>(self->manager_ctx)->deleted;
    };
  }
  std::vector<uint64_t> memory;
  std::vector<int64_t> shape, strides;
  DLManagedTensorVersioned managed;
  int deleted = 0;
};

std::string refusal(Foreign& foreign) {
  try {
    from_dlpack(&foreign.managed);
  } catch (const Error& error) {
    CHECK(foreign.deleted == 1);  // taken over despite the error
    return error.what();
  }
  return "taken";
}

bool says(const std::string& text, const char* part) {
  return text.find(part) != std::string::npos;
}

// Returns a random view of a fresh tensor: sliced, transposed, expanded.
Tensor drawn_view(std::mt19937& random, DType dtype) {
  const auto below = [&](int64_t n) {
    return std::uniform_int_distribution<int64_t>(0, n - 1)(random);
  };
  Shape shape;
  for (int64_t i = 0, n = below(4); i < n; ++i) shape.push_back(1 + below(5));
  Tensor x = untracked::cast(untracked::reshape(arange(shape.numel()), shape), dtype);
  for (int64_t i = 0, n = below(4); i < n && x.ndim() > 0; ++i) {
    const int64_t dim = below(x.ndim());
    switch (below(4)) {
      case 0: x = untracked::transpose(x, dim, below(x.ndim())); break;
      case 1: {
        const int64_t begin = below(x.size(dim));
        x = untracked::narrow(x, dim, begin, below(x.size(dim) - begin + 1));
        if (x.numel() == 0) return x;
        break;
      }
      case 2: x = untracked::select(x, dim, below(x.size(dim))); break;
      case 3: {
        Shape wider = x.shape();
        wider.insert(0, 2);
        x = untracked::expand(x, wider);
        break;
      }
    }
  }
  return x;
}

// Another library's stream on the GPU, which its kernels run on.
struct ForeignStream {
  static void queue(const std::function<void()>& body) {
    kernels::cuda_module()->run_beside(gpu.index, body);
  }
  static void* handle() {
    void* stream = nullptr;
    queue([&] { stream = kernels::cuda_module()->stream(gpu.index); });
    return stream;
  }
  static void finish() {
    queue([] { kernels::cuda_module()->synchronize(gpu.index); });
  }
};

void fill_by_kernel(const Tensor& x, double value) { kernels::on(gpu).fill(x.view(), value); }

}  // namespace

TEST_CASE("any view goes through DLPack and back, sharing its memory, and outlives all others") {
  const DType dtypes[] = {DType::f32, DType::f64, DType::f16, DType::bf16,
                          DType::i32, DType::i64, DType::u8,  DType::boolean};
  for (const unsigned round : testing::draws(400)) {
    std::mt19937 random(round);
    CAPTURE(round);
    Tensor x = drawn_view(random, dtypes[round % 8]);
    const Shape shape = x.shape(), strides = x.strides();
    const void* data = x.data();
    const auto numbers = untracked::cast(x, DType::f64).to_vector<double>();
    Tensor back;
    const auto check_structure = [&](const DLTensor& given) {
      CHECK(given.data == data);
      CHECK(given.byte_offset == 0);
      CHECK(given.ndim == shape.ndim());
      CHECK(given.dtype.bits == 8 * size_of(dtypes[round % 8]));
      CHECK(given.dtype.lanes == 1);
      for (int i = 0; i < shape.ndim(); ++i) {
        CHECK(given.shape[i] == shape[i]);
        CHECK(given.strides[i] == strides[i]);
      }
    };
    if (round % 2) {
      auto* given = to_dlpack(x);
      x = Tensor();
      check_structure(given->dl_tensor);
      CHECK(given->version.major == 1);
      back = from_dlpack(given);
    } else {
      auto* given = to_dlpack_unversioned(x);
      x = Tensor();
      check_structure(given->dl_tensor);
      back = from_dlpack(given);
    }
    CHECK(back.shape() == shape);
    CHECK(back.dtype() == dtypes[round % 8]);
    if (back.numel() > 0) CHECK(back.data() == data);
    CHECK(untracked::cast(back, DType::f64).to_vector<double>() == numbers);
  }
}

TEST_CASE("a foreign tensor is deleted once, when the last view on it is gone") {
  Foreign foreign({kDLFloat, 32, 1}, {2, 3}, {4, 1});
  foreign.managed.dl_tensor.byte_offset = 8;
  float* numbers = reinterpret_cast<float*>(foreign.memory.data());
  std::iota(numbers, numbers + 32, 0.0f);
  Tensor x = from_dlpack(&foreign.managed);
  CHECK(x.to_vector<float>() == std::vector<float>{2, 3, 4, 6, 7, 8});
  Tensor view = untracked::select(x, 0, 1);
  x = Tensor();
  CHECK(foreign.deleted == 0);
  numbers[6] = -1;  // shared, not copied
  CHECK(view.to_vector<float>() == std::vector<float>{-1, 7, 8});
  view = Tensor();
  CHECK(foreign.deleted == 1);
  Foreign dense({kDLBool, 8, 1}, {3});
  CHECK(from_dlpack(&dense.managed).dtype() == DType::boolean);
  CHECK(dense.deleted == 1);
  Foreign empty({kDLInt, 64, 1}, {2, 0, 3});
  empty.managed.dl_tensor.data = nullptr;
  CHECK(from_dlpack(&empty.managed).shape() == Shape{2, 0, 3});
  CHECK(empty.deleted == 1);
  Foreign kept({kDLFloat, 64, 1}, {});
  kept.managed.deleter = nullptr;  // memory that needs no freeing
  CHECK(from_dlpack(&kept.managed).numel() == 1);
}

TEST_CASE("a deleter frees what a tensor was kept alive for") {
  int released = 0;
  float memory[4] = {};
  auto* given = to_dlpack(from_memory(memory, {4}, {}, [&] { ++released; }));
  CHECK(released == 0);
  given->deleter(given);
  CHECK(released == 1);
}

TEST_CASE("what cannot be a tensor on the other side is refused") {
  const auto refused = [](DLDataType type, std::vector<int64_t> shape,
                          std::vector<int64_t> strides = {}) {
    Foreign foreign(type, std::move(shape), std::move(strides));
    return refusal(foreign);
  };
  const DLDataType f32 = {kDLFloat, 32, 1};
  CHECK(says(refused({kDLFloat, 32, 4}, {2}), "unsupported dtype; got code 2, 32 bits, 4 lanes"));
  CHECK(says(refused({kDLInt, 16, 1}, {2}), "unsupported dtype"));
  CHECK(says(refused({5, 64, 1}, {2}), "unsupported dtype"));
  CHECK(says(refused(f32, std::vector<int64_t>(9, 1)), "too many dimensions; got 9"));
  CHECK(says(refused(f32, {3}, {-1}), "negative strides"));
  CHECK(says(refused(f32, {-3}), "negative sizes"));
  CHECK(says(refused(f32, {3, 3}, {int64_t{1} << 62, 1}), "too large"));
  Foreign elsewhere(f32, {2});
  elsewhere.managed.dl_tensor.device = {10, 0};
  CHECK(says(refusal(elsewhere), "unsupported device; got type 10"));
  Foreign crooked(f32, {2});
  crooked.managed.dl_tensor.byte_offset = 2;
  CHECK(says(refusal(crooked), "not aligned"));
  Foreign fixed(f32, {2});
  fixed.managed.flags = read_only_flag;
  CHECK(says(refusal(fixed), "read-only"));
  Foreign later(f32, {2});
  later.managed.version.major = 2;
  CHECK(says(refusal(later), "wrong version of DLPack; got 2, want 1"));
  CHECK_THROWS_AS(from_dlpack(static_cast<DLManagedTensor*>(nullptr)), Error);
}

TEST_CASE("GPU: a foreign tensor is read behind what made it, and reused behind what reads it" *
          on_gpu()) {
  for (void* stream : {static_cast<void*>(nullptr), ForeignStream::handle()})
    for (int round = 0; round < 10; ++round) {
      CAPTURE(round);
      CAPTURE(stream);
      const Tensor memory = zeros({1000}).to(gpu);
      Foreign foreign({kDLFloat, 32, 1}, {1000});
      foreign.managed.dl_tensor.device = {kDLCUDA, 0};
      foreign.managed.dl_tensor.data = memory.data();
      ForeignStream::queue([&] { fill_by_kernel(memory, round); });
      const Tensor read = untracked::cast(from_dlpack(&foreign.managed, stream), DType::f64);
      CHECK(foreign.deleted == 1);  // other code owns the memory from here on
      ForeignStream::queue([&] { fill_by_kernel(memory, -1); });
      ForeignStream::finish();
      CHECK(read.to_vector<double>() == std::vector<double>(1000, round));
    }
}

TEST_CASE("GPU: a tensor that is given away is read behind what made it, and reused behind that" *
          on_gpu()) {
  for (void* stream : {static_cast<void*>(nullptr), ForeignStream::handle()})
    for (int round = 0; round < 10; ++round) {
      CAPTURE(round);
      CAPTURE(stream);
      const Tensor seen = zeros({1000}).to(gpu);
      Tensor x = full({1000}, round, {.device = gpu});
      const void* data = x.data();
      auto* given = to_dlpack(x, stream);
      ForeignStream::queue([&] { kernels::on(gpu).copy(seen.view(), x.view()); });
      x = Tensor();
      given->deleter(given);
      const Tensor next = full({1000}, -1, {.device = gpu});
      CHECK(next.data() == data);  // otherwise the test would prove nothing
      kernels::device_synchronize(gpu);
      ForeignStream::finish();
      CHECK(seen.to_vector<float>() == std::vector<float>(1000, static_cast<float>(round)));
    }
}

// CUDA does not wait for a whole GPU while a thread captures work there.
TEST_CASE("GPU: a foreign tensor without a stream is taken once another thread has captured" *
          on_gpu()) {
  const Tensor memory = full({1000}, 3, {.device = gpu}), x = full({1000}, 4, {.device = gpu});
  Foreign foreign({kDLFloat, 32, 1}, {1000});
  foreign.managed.dl_tensor.device = {kDLCUDA, 0};
  foreign.managed.dl_tensor.data = memory.data();
  std::atomic<bool> is_taken = false;
  Tensor taken;
  std::thread other;
  CapturedWork captured = capture(gpu, [&] {
    other = std::thread([&] {
      taken = from_dlpack(&foreign.managed);
      is_taken = true;
    });
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    CHECK_FALSE(is_taken);
    return std::vector<Tensor>{untracked::cast(x, DType::f64)};
  });
  other.join();
  CHECK(taken.to_vector<float>() == std::vector<float>(1000, 3));
  captured.replay();
  CHECK(captured.results()[0].to_vector<double>() == std::vector<double>(1000, 4));
}
