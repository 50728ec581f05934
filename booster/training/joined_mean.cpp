#include "booster/training/joined_mean.h"

#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/optim/clip.h"
#include "core/tensor/tensor.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace booster {
namespace {

// Returns the loss, or 0 instead of nan if no row counts, so that it adds nothing to the joined
// mean.
Tensor or_zero(const Tensor& loss, const Tensor& divisor) {
  return where(greater(divisor, 0.0), loss, zeros_like(loss));
}

Tensor times(const Tensor& loss, const Tensor& weight) {
  const DType wide = loss.dtype() == DType::f64 ? DType::f64 : DType::f32;
  return mul(cast(loss, wide), untracked::cast(weight.to(loss.device()), wide));
}

}  // namespace

void JoinedMean::agree_on_unit(int64_t elements) {
  if (unit_ > 0) return;
  std::vector<int64_t> most = {std::max<int64_t>(elements, 1)};
  if (ranks_.size() > 1) ranks_.all_reduce(most, CollectiveOp::max);
  unit_ = static_cast<double>(std::bit_ceil(static_cast<uint64_t>(most[0])));
}

void JoinedMean::count(const Tensor& divisor) {
  check(!is_settled_,
        "booster: loss_mean rows: a loss adds to gradients that were already clipped or used; want "
        "zero_grad before the first loss of a step");
  const NoGradGuard no_grad;
  pending_ = pending_.defined() ? pending_ + divisor : divisor;
}

Tensor JoinedMean::note(const Tensor& loss, const Tensor& divisor, int64_t elements) {
  if (!loss.requires_grad()) return loss;
  ++calls_;
  noted_ = divisor;
  elements_ = elements;
  const PolicyScope no_casts(nullptr);
  return or_zero(loss, divisor.to(loss.device()));
}

Tensor JoinedMean::weighted(const Tensor& loss, double weight) {
  const int calls = std::exchange(calls_, 0);
  check(calls == 1,
        "booster.backward: loss_mean rows needs one call of boost's criterion with gradients for "
        "each loss; got {} since the last loss, want 1 (evaluations under a NoGradGuard)",
        calls);
  agree_on_unit(elements_);
  const PolicyScope no_casts(nullptr);
  const Tensor divisor = std::exchange(noted_, {}) * (weight > 0 ? 1.0 : 0.0);
  count(divisor);
  return times(loss, divisor / unit_);
}

void JoinedMean::begin_batch(const Tensor& divisor, int64_t elements) {
  agree_on_unit(elements);
  count(divisor);
  batch_ = divisor;
}

Tensor JoinedMean::weighted_part(const Tensor& loss, const Tensor& divisor, double share) const {
  const PolicyScope no_casts(nullptr);
  return times(or_zero(loss, divisor.to(loss.device())), divisor / (unit_ * share));
}

Tensor JoinedMean::end_batch(const Tensor& loss) {
  calls_ = 0;
  const NoGradGuard no_grad;
  const PolicyScope no_casts(nullptr);
  const Tensor divisor = std::exchange(batch_, {});
  return or_zero(times(loss, ones_like(divisor) * unit_ / divisor), divisor.to(loss.device()));
}

void JoinedMean::settle(const Optimizer& optimizer) {
  const NoGradGuard no_grad;
  const PolicyScope no_casts(nullptr);
  calls_ = 0;
  const Device device = optimizer.device();
  Tensor total = zeros({}, {DType::f64, device});
  is_settled_ |= pending_.defined();
  if (pending_.defined()) total.add_(std::exchange(pending_, {}).to(device));
  if (ranks_.size() > 1) ranks_.all_reduce(total);
  // Gradients are the mean over the ranks of sums with weights n / unit.
  const Tensor factor = ones_like(total) * (unit_ * ranks_.size()) / total;
  scale_gradients(optimizer.gradients(), where(greater(total, 0.0), factor, ones_like(total)));
}

void JoinedMean::forget() {
  calls_ = 0;
  pending_ = {};
  is_settled_ = false;
}

}  // namespace booster
