#include "core/nn/criterion.h"

#include "core/nn/arguments.h"

namespace booster {

CrossEntropyLoss::CrossEntropyLoss(CrossEntropyOptions options)
    : Criterion("cross_entropy", [options](const Tensor& logits, const Tensor& target) {
        return cross_entropy(logits, target, options);
      }) {
  arguments::probability("CrossEntropyLoss", "label_smoothing", options.label_smoothing);
}

NLLLoss::NLLLoss(NllOptions options)
    : Criterion("nll_loss", [options](const Tensor& log_probability, const Tensor& target) {
        return nll_loss(log_probability, target, options);
      }) {}

MSELoss::MSELoss(Reduction reduction)
    : Criterion("mse_loss", [reduction](const Tensor& output, const Tensor& target) {
        return mse_loss(output, target, reduction);
      }) {}

L1Loss::L1Loss(Reduction reduction)
    : Criterion("l1_loss", [reduction](const Tensor& output, const Tensor& target) {
        return l1_loss(output, target, reduction);
      }) {}

SmoothL1Loss::SmoothL1Loss(double beta, Reduction reduction)
    : Criterion("smooth_l1_loss", [beta, reduction](const Tensor& output, const Tensor& target) {
        return smooth_l1_loss(output, target, beta, reduction);
      }) {}

HuberLoss::HuberLoss(double delta, Reduction reduction)
    : Criterion("huber_loss", [delta, reduction](const Tensor& output, const Tensor& target) {
        return huber_loss(output, target, delta, reduction);
      }) {}

KLDivLoss::KLDivLoss(KlDivOptions options)
    : Criterion("kl_div", [options](const Tensor& output, const Tensor& target) {
        return kl_div(output, target, options);
      }) {}

BCEWithLogitsLoss::BCEWithLogitsLoss(BinaryCrossEntropyOptions options)
    : Criterion("binary_cross_entropy_with_logits",
                [options](const Tensor& logits, const Tensor& target) {
                  return binary_cross_entropy_with_logits(logits, target, options);
                }) {}

BCELoss::BCELoss(BinaryCrossEntropyOptions options)
    : Criterion("binary_cross_entropy", [options](const Tensor& output, const Tensor& target) {
        return binary_cross_entropy(output, target, options);
      }) {}

}  // namespace booster
