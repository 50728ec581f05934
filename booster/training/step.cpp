// The one function that holds the whole order of a step: all work of a precision strategy and a
// plugin on gradients and parameters between two iterations.
#include "booster/training/boosted.h"
#include "booster/training/session.h"
#include "core/tensor/device_number.h"
#include "kernels/arguments/multi_tensor.h"
#include "platform/trace.h"

#include <algorithm>
#include <utility>

namespace booster {

bool Iteration::awaits(const Optimizer& optimizer) const {
  return std::ranges::find(awaited, optimizer) != awaited.end();
}

// Adds an optimizer's verdict. An overflow in its gradients counts for the whole iteration. The
// report shares the verdict's flag, so later additions go to a copy.
void Iteration::add(const Verdict& verdict, const Optimizer& optimizer) {
  std::erase(stepped, optimizer);
  stepped.push_back(optimizer);
  if (!verdict.found_inf.defined()) return;
  const bool is_last = stepped.size() == all.size();
  if (found_inf.defined())
    found_inf.add_(verdict.found_inf);
  else
    found_inf = is_last ? verdict.found_inf : untracked::clone(verdict.found_inf);
}

void Session::leave_iteration(bool abandons) {
  const bool was_awaited = std::erase(iteration->awaited, optimizer) > 0;
  if (iteration->stepped.size() == iteration->all.size()) iteration->end(*precision);
  else if (abandons && was_awaited) end_iteration();
}

void Session::end_iteration() {
  if (iteration->awaited.empty()) iteration->end(*precision);
}

void Iteration::end(Precision& precision) {
  if (stepped.empty()) return;
  stepped.clear();
  precision.update({std::exchange(found_inf, {}), {}, {}});
}

// Returns the norm of the true gradients if it is known, or if only all ranks together can compute
// it. One rank may read a report's norm without the others.
Tensor Session::known_norm(const Verdict& verdict) const {
  const Tensor clipped = optimizer.clipped_norm();
  if (clipped.defined() || !optimizer.shares_norms()) return clipped;
  return optimizer.gradient_norm(2, verdict.inverse_scale);
}

StepReport Session::step() {
  const OneThread::Scope alone(iteration->thread, "optimizer");
  const kernels::TraceScope span("step", kernels::SpanKind::phase);
  const GradientKeeper::Scope mine;
  settle("optimizer.step");      // takes over the program's writes
  sync_grads("optimizer.step");  // every gradient is the global one
  const std::vector<Tensor> gradients = optimizer.gradients();
  const bool counts = !gradients.empty() || iteration->awaits(optimizer);
  Verdict verdict = precision->inspect(optimizer);  // are this rank's finite?
  if (verdict.found_inf.defined())
    plugin->agree(verdict.found_inf, Among::everybody);  // are all ranks' finite?
  if (watcher) watcher->step_begins(verdict);
  const StepReport report(verdict, known_norm(verdict), gradients, precision);
  optimizer.step({.found_inf = device_float(verdict.found_inf),  // unscale, clip and update masters
                  .inverse_scale = device_float(verdict.inverse_scale)});  // and copies in one pass
  plugin->sync_params(optimizer);     // if ranks update parts
  optimizer.settle_masters();         // working copies follow
  iteration->loans->open(optimizer);  // programs now read true gradients
  if (counts) {
    skipped.add(verdict);
    iteration->add(verdict, optimizer);
  }
  leave_iteration(false);  // after the last optimizer: grow or back off
  look_for_frozen_statistics();
  pass_on_notes();
  if (watcher) watcher->step_ends(report);
  return report;
}

}  // namespace booster
