// The order of backward, and the one function that holds the whole order of a step: everything that
// a precision strategy and a plugin do to gradients and parameters happens here.
#include "booster/session.h"
#include "core/autograd/tape.h"
#include "core/tensor/device_number.h"
#include "kernels/system/trace.h"

#include <cstdio>
#include <utility>

namespace booster {

Session::Session(std::shared_ptr<Precision> precision, std::shared_ptr<Plugin> plugin,
                 std::shared_ptr<Iteration> iteration, const Model& model,
                 const Optimizer& optimizer)
    : precision(std::move(precision)),
      plugin(std::move(plugin)),
      iteration(std::move(iteration)),
      model(model),
      optimizer(optimizer) {}

Session::~Session() {
  try {
    pass_on_all_notes();
  } catch (const Error&) {  // the device is gone, and what it knew
  }
}

void Session::sync_grads() {
  if (!iteration->grads_synced) plugin->sync_grads();
  iteration->grads_synced = true;
}

// An overflow in one optimizer's gradients is one of the whole iteration.
void Iteration::add(const Verdict& verdict) {
  stepped = true;
  if (!verdict.found_inf.defined()) return;
  if (found_inf.defined()) found_inf.add_(verdict.found_inf);
  else found_inf = awaited.size() > 1 ? verdict.found_inf.clone() : verdict.found_inf;
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

void Session::pass_on_all_notes() {
  precision->finish_notes();
  pass_on_notes();
}

void Session::zero_grad() {
  optimizer.zero_grad();
  leave_iteration();
}

void Session::leave_iteration() {
  std::erase(iteration->awaited, optimizer);
  if (!iteration->awaited.empty()) return;
  iteration->grads_synced = false;
  if (!std::exchange(iteration->stepped, false)) return;
  precision->update({std::exchange(iteration->found_inf, {}), {}, {}});
}

void backward(const Tensor& loss, const std::vector<Session*>& sessions,
              const ScaleLossOptions& options) {
  Session& first = *sessions[0];
  Iteration& iteration = *first.iteration;
  const bool unscales = first.precision->unscales_each_loss() && !options.delay_unscale;
  check(!unscales || !iteration.grads_are_local || first.plugin->group().size() == 1,
        "booster.backward: {} unscales each loss, here under no_sync, where gradients are still "
        "this rank's own; want delay_unscale for every loss but the last",
        first.precision->name());
  Optimizers optimizers;
  for (const Session* session : sessions) optimizers.push_back(session->optimizer);
  first.precision->begin_loss(options, optimizers);
  for (const Session* session : sessions) {
    std::erase(iteration.awaited, session->optimizer);
    iteration.awaited.push_back(session->optimizer);
    if (session->watcher) session->watcher->backward_begins(loss);
  }
  iteration.grads_synced = false;
  booster::backward(first.precision->scale(loss));
  if (unscales) first.sync_grads();
  first.end_pass(Pass::backward);
  for (const Session* session : sessions)
    if (session->watcher) session->watcher->gradients_are_known();
}

StepReport Session::step() {
  const kernels::TraceScope span("step", kernels::SpanKind::phase);
  sync_grads();                                                  // every gradient is the global one
  Verdict verdict = precision->inspect(optimizer);               // are mine all finite?
  if (verdict.found_inf.defined()) plugin->agree(verdict.found_inf);  // are everybody's?
  if (watcher) watcher->step_begins(verdict);
  const StepReport report(verdict, optimizer.clipped_norm(), optimizer.gradients(), precision);
  optimizer.step({.found_inf = device_float(verdict.found_inf),  // unscale, clip and update masters
                  .inverse_scale = device_float(verdict.inverse_scale)});  // and copies in one pass
  plugin->sync_params();
  iteration->add(verdict);
  leave_iteration();                                             // the last one: grow or back off
  pass_on_notes();
  if (watcher) watcher->step_ends(report);
  return report;
}

}  // namespace booster
