// Gradients that are sent in 16 bits.
#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/tensor/random/random.h"
#include "parallel/mesh.h"
#include "plugins/gradients/gradient_buckets.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;

namespace {

float rounded(float x, DType dtype) {
  return untracked::cast(full({1}, x), dtype).to_vector<float>()[0];
}

// Returns the mean over the ranks of values that are rounded before and after, but not in between.
float mean_of(const std::vector<float>& numbers, DType dtype) {
  float sum = 0;
  for (const float x : numbers) sum += rounded(x, dtype);
  return rounded(sum / static_cast<float>(numbers.size()), dtype);
}

std::vector<float> numbers_of(int rank, int64_t n) {
  Generator generator(static_cast<uint64_t>(rank) + 5);
  auto numbers = (normal({n}, 0, 3, {}, generator)).to_vector<float>();
  numbers[0] = rank == 1 ? 1e5f : 1;  // more than f16 holds
  return numbers;
}

// `kept_wide`: gradients that were unscaled outside the bucket's dtype.
void check_means(DType sent_as, bool views, bool kept_wide) {
  const World world = launch_from_env();
  constexpr int64_t n = 6000;  // more than one piece of a reduction
  const DType dtype = kept_wide ? sent_as : DType::f32;
  const Tensor weight = zeros({n}, {dtype}).requires_grad_();
  GradientBuckets buckets(world.group(), {.views = views, .sent_as = sent_as});
  buckets.add({{"weight", weight}});
  buckets.begin();
  const Tensor mine = from_vector(numbers_of(world.rank, n), {n});
  if (kept_wide) weight.set_grad(mine.clone());
  else backward(sum(weight * mine));
  buckets.mark_ready(0);
  buckets.finish(false);
  const auto got = weight.grad().to_vector<float>();
  CHECK(weight.grad().dtype() == DType::f32);
  std::vector<std::vector<float>> all;
  for (int rank = 0; rank < world.size; ++rank) all.push_back(numbers_of(rank, n));
  for (size_t i = 0; i < got.size(); ++i) {
    std::vector<float> of_ranks;
    for (const auto& numbers : all) of_ranks.push_back(numbers[i]);
    REQUIRE(got[i] == mean_of(of_ranks, sent_as));
  }
  CHECK(std::isinf(got[0]) == (sent_as == DType::f16));
}

}  // namespace

TEST_CASE("rank: means in 16 bits" * doctest::skip()) {
  for (const DType dtype : {DType::f16, DType::bf16})
    for (const bool views : {true, false})
      for (const bool kept_wide : {true, false}) check_means(dtype, views, kept_wide);
}
TEST_CASE("gradients that travel in 16 bits are rounded twice, and summed in f32") {
  run_ranks("rank: means in 16 bits", 2);
  run_ranks("rank: means in 16 bits", 3);
}
