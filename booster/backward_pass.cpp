#include "booster/backward_pass.h"

#include "core/autograd/tape.h"
#include "kernels/system/trace.h"

#include <algorithm>

namespace booster {

BackwardPass::BackwardPass(const std::vector<Session*>& sessions, const ScaleLossOptions& options)
    : sessions_(sessions), first_(*sessions[0]) {
  Iteration& iteration = *first_.iteration;
  const bool sync = iteration.no_sync == 0;
  check(!first_.precision->unscales_each_loss() || options.delay_unscale || sync ||
            first_.plugin->group().size() == 1,
        "booster.backward: {} unscales each loss, here under no_sync, where gradients are still "
        "this rank's own; want delay_unscale for every loss but the last",
        first_.precision->name());
  Optimizers named;
  for (const Session* session : sessions) named.push_back(session->optimizer);
  for (Optimizer& optimizer : iteration.all) optimizer.settle_clip();  // what comes is not clipped
  first_.precision->begin_loss(options, named);
  for (const Optimizer& optimizer : iteration.all)
    if (std::ranges::find(named, optimizer) == named.end())
      not_named_.push_back(gradients_of(optimizer));
  for (const Optimizer& optimizer : named) await(optimizer);
  first_.plugin->begin(Pass::backward, sync);
}

BackwardPass::Before BackwardPass::gradients_of(const Optimizer& optimizer) {
  Before before = {optimizer, {}};
  for (const auto& [name, parameter] : optimizer.parameters_with_grad())
    before.gradients.emplace_back(parameter.grad(), parameter.grad().version());
  return before;
}

bool BackwardPass::has_changed(const Before& before) {
  const Before now = gradients_of(before.optimizer);
  return !std::ranges::equal(now.gradients, before.gradients, [](const auto& a, const auto& b) {
    return a.first.same_body(b.first) && a.second == b.second;
  });
}

void BackwardPass::await(const Optimizer& optimizer) {
  Optimizers& awaited = first_.iteration->awaited;
  std::erase(awaited, optimizer);
  awaited.push_back(optimizer);
}

Tensor BackwardPass::root(const Tensor& loss) const {
  for (const Session* session : sessions_)
    if (session->watcher) session->watcher->backward_begins(loss);
  return first_.precision->scale(loss);
}

// An optimizer whose parameters got gradients counts, whether the program named it or not.
void BackwardPass::end() {
  first_.plugin->end(Pass::backward);
  for (const Before& before : not_named_)
    if (has_changed(before)) await(before.optimizer);
  first_.end_pass(Pass::backward);
  for (const Session* session : sessions_)
    if (session->watcher) session->watcher->gradients_are_known();
}

void backward(const Tensor& loss, const std::vector<Session*>& sessions,
              const ScaleLossOptions& options) {
  const kernels::TraceScope span("backward", kernels::SpanKind::phase);
  BackwardPass pass(sessions, options);
  backward(pass.root(loss));
  pass.end();
}

}  // namespace booster
