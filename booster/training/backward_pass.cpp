#include "booster/training/backward_pass.h"

#include "booster/training/session.h"
#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "platform/trace.h"

#include <algorithm>

namespace booster {

BackwardPass::BackwardPass(const std::vector<Session*>& sessions, const ScaleLossOptions& options)
    : sessions_(sessions),
      first_(*sessions[0]),
      loss_(begin_loss(options)),
      scope_(
          first_.plugin->begin({.pass = Pass::backward, .sync = first_.iteration->no_sync == 0})) {}

LossPass BackwardPass::begin_loss(const ScaleLossOptions& options) {
  Iteration& iteration = *first_.iteration;
  first_.settle("booster.backward");
  Optimizers named;
  const auto has_stepped = [&](const Session* session) {
    return std::ranges::find(iteration.stepped, session->optimizer) != iteration.stepped.end();
  };
  if (std::ranges::any_of(sessions_, has_stepped)) first_.end_iteration();
  for (Session* session : sessions_) {
    session->look_for_skips();  // done here, so that no step waits for the device
    named.push_back(session->optimizer);
  }
  for (Optimizer& optimizer : iteration.all) {
    optimizer.settle_clip();  // the new gradients are not clipped
    optimizer.forget_clipped_norm();
  }
  LossPass loss = first_.precision->begin_loss(
      {.options = options,
       .optimizers = named,
       .stays_local = iteration.no_sync > 0 && first_.plugin->group().size() > 1});
  for (const Optimizer& optimizer : iteration.all)
    if (std::ranges::find(named, optimizer) == named.end()) not_named_.emplace_back(optimizer);
  for (const Optimizer& optimizer : named) await(optimizer);
  return loss;
}

// Abandons a failed pass. With several ranks it leaves incomplete gradients. A single process may
// use its gradients freely; they are already complete.
BackwardPass::~BackwardPass() {
  Iteration& iteration = *first_.iteration;
  if (has_ended_ || first_.plugin->group().size() == 1) return;
  for (const Optimizer& optimizer : iteration.all) iteration.half_done.push_back(optimizer);
}

BackwardPass::Watch::Watch(const Optimizer& optimizer) : optimizer_(optimizer) {
  for (const auto& [name, parameter] : optimizer.parameters())
    if (parameter.requires_grad())
      hooks_.emplace_back(parameter,
                          on_grad_ready(parameter, [this](const Tensor&) { reached_ = true; }));
}

BackwardPass::Watch::~Watch() {
  for (const auto& [parameter, hook] : hooks_) remove_grad_ready_hook(parameter, hook);
}

void BackwardPass::await(const Optimizer& optimizer) {
  Optimizers& awaited = first_.iteration->awaited;
  std::erase(awaited, optimizer);
  awaited.push_back(optimizer);
  first_.iteration->loans->close(optimizer);
}

Tensor BackwardPass::root(const Tensor& loss) const {
  for (const Session* session : sessions_)
    if (session->watcher) session->watcher->backward_begins(loss);
  const double weight = first_.iteration->joined ? 1 : first_.iteration->weight->value;
  const Tensor weighted = weight == 1 ? loss : loss * weight;
  return loss_.scale ? loss_.scale(weighted) : weighted;
}

// Ends the pass. An optimizer whose parameters got gradients takes part even if the program did not
// name it.
void BackwardPass::end() {
  const kernels::TraceScope span("backward", kernels::SpanKind::phase);
  scope_.end();
  Optimizers unnamed;
  for (const Watch& watch : not_named_) {
    if (!watch.was_reached()) continue;
    await(watch.optimizer());
    unnamed.push_back(watch.optimizer());
  }
  if (loss_.end) first_.share(loss_.end(unnamed));
  has_ended_ = true;
  for (const Session* session : sessions_)
    if (session->watcher) session->watcher->gradients_are_known();
}

void backward(const Tensor& loss, const std::vector<Session*>& sessions,
              const ScaleLossOptions& options) {
  const OneThread::Scope alone(sessions[0]->iteration->thread, "model");
  const GradientKeeper::Scope mine;
  BackwardPass pass(sessions, options);
  const Iteration& iteration = *sessions[0]->iteration;
  backward(pass.root(iteration.joined ? iteration.joined->weighted(loss, iteration.weight->value)
                                      : loss));
  pass.end();
}

}  // namespace booster
