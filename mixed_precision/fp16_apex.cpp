#include "mixed_precision/fp16_apex.h"

namespace booster {

FP16ApexMixedPrecision::FP16ApexMixedPrecision(FP16ApexOptions options)
    : amp_(options), verbosity_(options.verbosity), each_loss_(options.num_losses > 1) {}

Interaction FP16ApexMixedPrecision::interaction(const Layout& layout) const {
  const ApexProperties& properties = amp_.properties();
  const DType wire = properties.enabled && properties.casts_model() ? DType::f16 : DType::f32;
  if (layout.tensor > 1 || layout.pipeline > 1)
    return {.supported = false,
            .reason = layout.tensor > 1
                          ? "Apex amp has no rules for layers that are split over ranks"
                          : "Apex amp unscales after each backward pass, which a pipeline has many "
                            "of per step",
            .instead = "fp16_naive",
            .wire = wire};
  return {.wire = wire, .ranks_agree = layout.zero_stage > 0};
}

void FP16ApexMixedPrecision::prepare(const Model& model, const Optimizers& optimizers) {
  amp_.initialize({model}, optimizers);
  each_loss_ = each_loss_ || optimizers.size() > 1;
  amp_.set_listener([this](const std::string& line) { notes_.push_back("fp16_apex: " + line); });
  if (verbosity_ < 1) return;
  for (const std::string& line : amp_.properties().describe())
    notes_.push_back("fp16_apex: " + line);
}

void FP16ApexMixedPrecision::begin_loss(const ScaleLossOptions& options,
                                        const Optimizers& optimizers) {
  loss_id_ = options.loss_id;
  if (each_loss_) return amp_.begin_loss(options, optimizers);
  Precision::begin_loss(options, optimizers);
  amp_.tell_overflows();
}

Tensor FP16ApexMixedPrecision::scale(const Tensor& loss) {
  if (scales()) return amp_.loss(0).scale(loss);
  if (!each_loss_) return amp_.properties().enabled ? cast(loss, DType::f32) : loss;
  const Tensor scaled = amp_.scale(loss);
  scale_ = amp_.loss(loss_id_).scaler().scale_tensor();
  return scaled;
}

Tensor FP16ApexMixedPrecision::maxima(Pass pass) {
  return each_loss_ && pass == Pass::backward ? amp_.unscale() : Tensor();
}

void FP16ApexMixedPrecision::end_pass(Pass pass) {
  if (each_loss_ && pass == Pass::backward) amp_.end_loss();
}

void FP16ApexMixedPrecision::unscale(Optimizer& optimizer) {
  if (scales()) amp_.loss(0).unscale(optimizer);
}

Tensor FP16ApexMixedPrecision::norm_factor(Optimizer& optimizer) {
  return scales() ? amp_.loss(0).pending_inverse(optimizer) : Tensor();
}

Verdict FP16ApexMixedPrecision::inspect(Optimizer& optimizer) {
  if (scales()) return amp_.loss(0).inspect(optimizer);
  return each_loss_ ? Verdict{amp_.take_skip(optimizer), {}, scale_} : Verdict{};
}

void FP16ApexMixedPrecision::update(const Verdict& verdict) {
  if (!scales()) return;
  amp_.loss(0).update(verdict);
  amp_.remember_overflow(0, verdict.found_inf);
}

std::string FP16ApexMixedPrecision::refusal() const {
  std::string text;
  for (int id = 0; id < amp_.losses(); ++id) {
    const std::string one = amp_.loss(id).scaler().diagnosis();
    if (!one.empty()) text += (text.empty() ? "" : "; ") + fmt::format("loss {}: {}", id, one);
  }
  return text;
}

}  // namespace booster
