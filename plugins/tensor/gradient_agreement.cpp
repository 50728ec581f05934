#include "plugins/tensor/gradient_agreement.h"

#include "core/optim/clip.h"
#include "core/tensor/tensor.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace booster {

namespace {

constexpr int64_t first_calls = 4, calls_between = 64;

// Sums on a GPU may differ in the last digits from run to run.
double tolerance_for(DType dtype) { return size_of(dtype) < 4 ? 1e-2 : 1e-4; }

double norm_of(const Tensor& parameter) {
  const Tensor gradient = dense_grad(parameter);
  return gradient.defined() && gradient.numel() > 0 ? gradient_norm({gradient}, 2).item() : 0;
}

}  // namespace

void GradientAgreement::check_same(const Parameters& whole) {
  if (ranks_.size() == 1) return;
  const int64_t call = calls_++;
  if (call >= first_calls && call % calls_between != 0) return;
  const NoGradGuard no_grad;
  const std::string name = differing(whole);
  std::vector<double> found = {name.empty() ? 0.0 : 1.0};
  world_.all_reduce(found, CollectiveOp::max);
  check(
      found[0] == 0,
      "hybrid_parallel: ranks along tensor got different gradients of {}, which each rank holds "
      "whole; if it is used only on parts (between a column and a row layer, or in split_gather "
      "within sequence_blocks), want it in tensor_plan with style shared, which sums its gradient",
      name.empty() ? "a parameter that other ranks have" : name);
}

// Finds the largest and smallest norm over the ranks in one message. Ignores gradients that
// overflowed, since their step is skipped.
std::string GradientAgreement::differing(const Parameters& whole) const {
  std::vector<double> ends;
  for (const auto& [name, parameter] : whole) {
    const double norm = norm_of(parameter);
    const bool is_finite = std::isfinite(norm);
    ends.push_back(is_finite ? norm : std::numeric_limits<double>::infinity());
    ends.push_back(is_finite ? -norm : std::numeric_limits<double>::infinity());
  }
  ranks_.all_reduce(ends, CollectiveOp::max);
  for (size_t i = 0; i < whole.size(); ++i) {
    const double largest = ends[2 * i], smallest = -ends[2 * i + 1];
    if (std::isfinite(smallest) && std::isfinite(largest) &&
        largest - smallest > tolerance_for(whole[i].tensor.dtype()) * largest)
      return whole[i].name;
  }
  return "";
}

}  // namespace booster
