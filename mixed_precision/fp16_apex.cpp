#include "mixed_precision/fp16_apex.h"

namespace booster {

FP16ApexMixedPrecision::FP16ApexMixedPrecision(FP16ApexOptions options)
    : amp_(options), verbosity_(options.verbosity) {}

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

void FP16ApexMixedPrecision::prepare(const Model& model, Optimizer& optimizer) {
  amp_.initialize({model}, {optimizer});
  amp_.set_listener([this](const std::string& line) { notes_.push_back("fp16_apex: " + line); });
  if (verbosity_ < 1) return;
  for (const std::string& line : amp_.properties().describe())
    notes_.push_back("fp16_apex: " + line);
}

Tensor FP16ApexMixedPrecision::scale(const Tensor& loss) {
  amp_.tell_overflows();
  if (scales()) return amp_.loss(0).scale(loss);
  return amp_.properties().enabled ? cast(loss, DType::f32) : loss;
}

void FP16ApexMixedPrecision::unscale(Optimizer& optimizer) {
  if (scales()) amp_.loss(0).unscale(optimizer);
}

Tensor FP16ApexMixedPrecision::norm_factor(Optimizer&) {
  return scales() ? amp_.loss(0).pending_inverse() : Tensor();
}

Verdict FP16ApexMixedPrecision::inspect(Optimizer& optimizer) {
  return scales() ? amp_.loss(0).inspect(optimizer) : Verdict();
}

void FP16ApexMixedPrecision::update(const Verdict& verdict) {
  if (!scales()) return;
  amp_.loss(0).update(verdict);
  amp_.remember_overflow(0, verdict.found_inf);
}

}  // namespace booster
