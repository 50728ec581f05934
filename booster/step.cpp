// The one function that holds the whole order of a step: everything that a precision strategy and a
// plugin do to gradients and parameters happens here, between backward and the next forward.
#include "booster/session.h"
#include "kernels/trace.h"

#include <cstdio>

namespace booster {

namespace {

const float* on_device(const Tensor& x) {
  return x.defined() ? static_cast<const float*>(x.data()) : nullptr;
}

std::vector<Tensor> gradients_of(const Optimizer& optimizer) {
  std::vector<Tensor> gradients;
  for (const auto& parameter : optimizer.parameters_with_grad())
    gradients.push_back(parameter.tensor.grad());
  return gradients;
}

}  // namespace

void Session::sync_grads() {
  if (!grads_synced) plugin->sync_grads();
  grads_synced = true;
}

void Session::end_pass(Pass pass) {
  Tensor maxima = precision->maxima(pass);
  if (maxima.defined()) plugin->agree(maxima);
  precision->end_pass(pass);
}

void Session::pass_on_notes() {
  const std::vector<std::string> notes = precision->take_notes();
  if (notes.empty() || plugin->group().rank() != 0) return;
  for (const std::string& note : notes) std::fputs((note + "\n").c_str(), stderr);
}

StepReport Session::step() {
  const kernels::TraceScope span("step", kernels::SpanKind::phase);
  sync_grads();                                                  // every gradient is the global one
  Verdict verdict = precision->inspect(optimizer);               // are mine all finite?
  if (verdict.found_inf.defined()) plugin->agree(verdict.found_inf);  // are everybody's?
  if (watcher) watcher->step_begins(verdict);
  const StepReport report(verdict, clipped_norm, gradients_of(optimizer));
  optimizer.step({.found_inf = on_device(verdict.found_inf),     // unscale, clip and update masters
                  .inverse_scale = on_device(verdict.inverse_scale)});  // and copies in one pass
  plugin->sync_params();
  precision->update(verdict);                                    // grow or back off
  grads_synced = false;
  clipped_norm = -1;
  pass_on_notes();
  if (watcher) watcher->step_ends(report);
  return report;
}

}  // namespace booster
