#include "core/nn/criterion.h"

#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/nn/arguments.h"
#include "core/nn/target_weights.h"
#include "core/tensor/tensor.h"

namespace booster {
namespace {

Tensor count_of(int64_t n) { return full({}, static_cast<double>(n), {DType::f64}); }

int64_t rows_of(const Tensors& target) {
  if (target.size() == 1 && target.only().ndim() == 0) return 1;
  return target.rows("criterion: target");
}

// Returns the divisor of losses with one value per target element.
Criterion::Divisor elements(const char* name, Reduction reduction) {
  return [name, reduction](const Tensor& target) {
    check(reduction == Reduction::mean || reduction == Reduction::batch_mean,
          "{}: only a mean has a divisor; want Reduction::mean", name);
    return count_of(reduction == Reduction::mean ? target.numel() : target.size(0));
  };
}

// Returns the divisor of losses by class numbers, or by `classes` probabilities for each row.
Criterion::Divisor counted_rows(const char* name, const Tensor& weight, int64_t ignore_index,
                                Reduction reduction) {
  return [=](const Tensor& target) {
    check(reduction == Reduction::mean, "{}: only a mean has a divisor; want Reduction::mean",
          name);
    if (is_floating(target.dtype()))
      return count_of(target.numel() / target.size(target.ndim() == 1 ? 0 : 1));
    return sum(target_weights(untracked::reshape(target, {target.numel()}), weight, ignore_index,
                              DType::f64));
  };
}

}  // namespace

Tensor Criterion::divisor(const Tensors& target) const {
  const NoGradGuard no_grad;
  const PolicyScope no_casts(nullptr);
  if (!divisor_) return count_of(rows_of(target)).to(target.device());
  const Tensor divisor = divisor_(target);
  check(divisor.defined() && divisor.numel() == 1,
        "{}: the divisor must have one element; got shape {}", name_,
        divisor.defined() ? divisor.shape() : Shape{});
  return untracked::cast(untracked::reshape(divisor.detach(), {}), DType::f64).to(target.device());
}

CrossEntropyLoss::CrossEntropyLoss(CrossEntropyOptions options)
    : Criterion(
          "cross_entropy",
          [options](const Tensor& logits, const Tensor& target) {
            return cross_entropy(logits, target, options);
          },
          counted_rows("cross_entropy", options.weight, options.ignore_index, options.reduction)) {
  arguments::probability("CrossEntropyLoss", "label_smoothing", options.label_smoothing);
}

NLLLoss::NLLLoss(NllOptions options)
    : Criterion(
          "nll_loss",
          [options](const Tensor& log_probability, const Tensor& target) {
            return nll_loss(log_probability, target, options);
          },
          counted_rows("nll_loss", options.weight, options.ignore_index, options.reduction)) {}

MSELoss::MSELoss(Reduction reduction)
    : Criterion(
          "mse_loss",
          [reduction](const Tensor& output, const Tensor& target) {
            return mse_loss(output, target, reduction);
          },
          elements("mse_loss", reduction)) {}

L1Loss::L1Loss(Reduction reduction)
    : Criterion(
          "l1_loss",
          [reduction](const Tensor& output, const Tensor& target) {
            return l1_loss(output, target, reduction);
          },
          elements("l1_loss", reduction)) {}

SmoothL1Loss::SmoothL1Loss(double beta, Reduction reduction)
    : Criterion(
          "smooth_l1_loss",
          [beta, reduction](const Tensor& output, const Tensor& target) {
            return smooth_l1_loss(output, target, beta, reduction);
          },
          elements("smooth_l1_loss", reduction)) {}

HuberLoss::HuberLoss(double delta, Reduction reduction)
    : Criterion(
          "huber_loss",
          [delta, reduction](const Tensor& output, const Tensor& target) {
            return huber_loss(output, target, delta, reduction);
          },
          elements("huber_loss", reduction)) {}

KLDivLoss::KLDivLoss(KlDivOptions options)
    : Criterion(
          "kl_div",
          [options](const Tensor& output, const Tensor& target) {
            return kl_div(output, target, options);
          },
          elements("kl_div", options.reduction)) {}

BCEWithLogitsLoss::BCEWithLogitsLoss(BinaryCrossEntropyOptions options)
    : Criterion(
          "binary_cross_entropy_with_logits",
          [options](const Tensor& logits, const Tensor& target) {
            return binary_cross_entropy_with_logits(logits, target, options);
          },
          elements("binary_cross_entropy_with_logits", options.reduction)) {}

BCELoss::BCELoss(BinaryCrossEntropyOptions options)
    : Criterion(
          "binary_cross_entropy",
          [options](const Tensor& output, const Tensor& target) {
            return binary_cross_entropy(output, target, options);
          },
          elements("binary_cross_entropy", options.reduction)) {}

}  // namespace booster
