// Tensors and their memory on GPUs.
#include "core/autograd/functions.h"
#include "core/tensor/memory/allocator.h"
#include "kernels/arguments/multi_tensor.h"
#include "kernels/catalogue.h"
#include "kernels/device/memory.h"
#include "platform/error.h"
#include "tests/on_gpu.h"

#include <doctest/doctest.h>

using namespace booster;

namespace {

constexpr Device second_gpu = {DeviceType::cuda, 1};

// Returns a tensor that occupies this share of a GPU's memory.
Tensor occupying(double share) {
  const auto bytes = static_cast<double>(kernels::cuda_devices()[0].bytes) * share;
  return empty({static_cast<int64_t>(bytes)}, {DType::u8, gpu});
}

}  // namespace

TEST_CASE("GPU alone: memory that is only kept for later is given back before a request fails" *
          on_gpu()) {
  occupying(0.5);
  const Tensor larger = occupying(0.7);
  CHECK(larger.device() == gpu);
  CHECK_THROWS_WITH_AS(occupying(0.6), doctest::Contains("memory: the system has no more"), Error);
  CHECK((ones({3}).to(gpu) + 1).to_vector<float>() == std::vector<float>{2, 2, 2});
}

TEST_CASE("GPU alone: a kernel's own memory comes from what is kept for later, too" * on_gpu()) {
  const Tensor x = ones({1000}).to(gpu), index = arange(1000).to(gpu);
  empty_cache();
  occupying(0.9);
  CHECK(sum(index_select(x, 0, index)).item() == 1000);
  double norm = 0;
  const Tensor there = zeros({1}, {DType::f64, gpu});
  const kernels::TensorSpan span = {x.data(), 1000, DType::f32};
  kernels::on(gpu).multi_norm({&span, 1}, 1, static_cast<double*>(there.data()));
  norm = there.item();
  CHECK(norm == 1000);
  empty_cache();
}

TEST_CASE("GPU: work goes to the GPU that has the tensors, from any thread" * on_gpu(2)) {
  const Tensor here = ones({300}).to(gpu), there = ones({300}).to(second_gpu);
  const Tensor a = here * 2, b = there * 3, c = here + 1, d = b.to(gpu);
  CHECK(b.device() == second_gpu);
  CHECK(sum(a + c + d).item() == 300 * (2 + 2 + 3));
  CHECK_THROWS_WITH_AS(a + b, doctest::Contains("device"), Error);
  CHECK_THROWS_WITH_AS(matmul(reshape(a, {1, 300}), ones({300, 1})),
                       doctest::Contains("arguments are on different devices"), Error);
}
