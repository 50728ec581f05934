#include "mixed_precision/strategies/fp16_apex.h"

namespace booster {

FP16Apex::FP16Apex(FP16ApexOptions options)
    : amp_(options), verbosity_(options.verbosity), each_loss_(options.num_losses > 1) {}

void FP16Apex::prepare(const Model& model, const Optimizers& optimizers) {
  amp_.initialize({model}, optimizers);
  each_loss_ = each_loss_ || optimizers.size() > 1;
  amp_.loss(0).serve(optimizers);
  amp_.set_listener([this](const std::string& line) { add_note("fp16_apex: " + line); });
  if (verbosity_ < 1) return;
  for (const std::string& line : amp_.properties().describe()) add_note("fp16_apex: " + line);
}

void FP16Apex::begin_loss(const ScaleLossOptions& options,
                                        const Optimizers& optimizers) {
  loss_id_ = options.loss_id;
  if (each_loss_) return amp_.begin_loss(options, optimizers);
  Precision::begin_loss(options, optimizers);
  amp_.tell_overflows();
  if (scales()) amp_.loss(0).begin();
}

Tensor FP16Apex::scale(const Tensor& loss) {
  if (each_loss_) return amp_.scale(loss);
  if (scales()) return amp_.loss(0).scale(loss);
  return amp_.properties().enabled ? cast(loss, DType::f32) : loss;
}

SharedNumbers FP16Apex::end(Pass pass) {
  if (!each_loss_ || pass == Pass::forward) return {};
  scale_ = amp_.scale_of_pass();
  return {amp_.unscale(), Among::everybody};
}

void FP16Apex::agreed(Pass pass) {
  if (each_loss_ && pass == Pass::backward) amp_.end_loss();
}

void FP16Apex::abandon(const Optimizer& optimizer) {
  if (each_loss_)
    amp_.abandon(optimizer);
  else if (scales())
    amp_.loss(0).abandon(optimizer);
}

void FP16Apex::unscale(Optimizer& optimizer) {
  if (scales())
    amp_.loss(0).unscale(optimizer);
  else if (each_loss_)
    amp_.unscale_now(optimizer);
}

Tensor FP16Apex::gradient_factor(const Optimizer& optimizer) const {
  return each_loss_ ? amp_.pending_inverse(optimizer)
         : scales() ? amp_.loss(0).pending_inverse(optimizer)
                    : Tensor();
}

Verdict FP16Apex::inspect(Optimizer& optimizer) {
  if (scales()) return amp_.loss(0).inspect(optimizer);
  return each_loss_ ? Verdict{amp_.skip_of(optimizer), {}, scale_} : Verdict{};
}

void FP16Apex::update(const Verdict& verdict) {
  if (!scales()) return;
  amp_.loss(0).update(verdict);
  amp_.remember_overflow(0, verdict.found_inf);
}

double FP16Apex::loss_scale(int loss_id) const {
  const double scale = amp_.loss(loss_id).scaler().get_scale();
  return amp_.properties().scales() ? scale : 1;
}

std::string FP16Apex::refusal() const {
  std::string text;
  for (int id = 0; id < amp_.losses(); ++id) {
    const std::string one = amp_.loss(id).scaler().diagnosis();
    if (!one.empty()) text += (text.empty() ? "" : "; ") + fmt::format("loss {}: {}", id, one);
  }
  return text;
}

}  // namespace booster
