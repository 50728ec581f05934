#include "booster/training/boosted.h"

#include "booster/training/session.h"
#include "core/optim/clip.h"
#include "core/tensor/absence.h"
#include "core/tensor/tensor.h"
#include "platform/trace.h"

#include <cmath>

namespace booster {

BoostedModel::BoostedModel(std::shared_ptr<Session> session)
    : BoostedModel(session, session->model) {}

void BoostedModel::share_buffers() const { session_->plugin->sync_params({}); }

Tensor BoostedModel::operator()(const Tensor& x) const {
  const Tensors y = (*this)(Tensors(x));
  if (y.size() != 1)
    fail("{}: called with one tensor, which gives one; got {} ({}), want a call with Tensors",
         model_->kind(), y.size(), y.names());
  return y.only();
}

Tensors BoostedModel::operator()(const Tensors& x) const {
  return session_.in("model").forward(model_, x);
}

StepReport BoostedOptimizer::step() { return session_.in("optimizer.step").step(); }

double BoostedOptimizer::lr(int group) const { return session_->optimizer.lr(group); }

double BoostedOptimizer::loss_scale(int loss_id) const {
  return session_->precision->loss_scale(loss_id);
}

Optimizer& BoostedOptimizer::unwrap() const { return session_->optimizer; }

void BoostedOptimizer::zero_grad() {
  const kernels::TraceScope span("zero_grad", kernels::SpanKind::phase);
  session_.in("optimizer.zero_grad").zero_grad();
}

LossAndReport BoostedOptimizer::step_after(const std::function<Tensor()>& closure) {
  Tensor loss;
  {
    const GradMode on_the_tape(true);
    loss = closure();
  }
  return {loss, step()};
}

DeviceNumber BoostedOptimizer::clip_grad_by_norm(double max_norm) {
  const OneThread::Scope alone(session_->iteration->thread, "optimizer");
  const kernels::TraceScope span("clip", kernels::SpanKind::phase);
  const GradientKeeper::Scope mine;
  session_->settle("optimizer.clip_grad_by_norm");
  session_->sync_grads("optimizer.clip_grad_by_norm");
  Optimizer& optimizer = session_->optimizer;
  optimizer.settle_clip();  // before the strategy changes gradients in memory
  const Tensor factor = session_->precision->norm_factor(optimizer);
  const DeviceNumber norm = optimizer.clip_grad_by_norm(max_norm, 2, factor);
  session_->iteration->loans->open(optimizer);
  if (session_->watcher) session_->watcher->gradients_are_known();
  return norm;
}

void BoostedOptimizer::clip_grad_by_value(double limit) {
  const OneThread::Scope alone(session_->iteration->thread, "optimizer");
  const GradientKeeper::Scope mine;
  session_->settle("optimizer.clip_grad_by_value");
  session_->sync_grads("optimizer.clip_grad_by_value");
  session_->optimizer.settle_clip();
  session_->precision->unscale(session_->optimizer);
  session_->optimizer.clip_grad_by_value(limit);
  session_->iteration->loans->open(session_->optimizer);
  if (session_->watcher) session_->watcher->gradients_are_known();
}

AveragedWeights averaged_weights(const BoostedOptimizer& optimizer,
                                 const ParameterAverage& average) {
  return AveragedWeights(average, [session = optimizer.session_] {
    session->plugin->sync_params(session->optimizer);
  });
}

NoSyncGuard::NoSyncGuard(std::shared_ptr<Session> session) : session_(std::move(session)) {
  if (session_) ++session_->iteration->no_sync;
}
NoSyncGuard::~NoSyncGuard() {
  if (session_) --session_->iteration->no_sync;
}

WholeParameters::WholeParameters(const BoostedModel& model) : plugin_(model.session().plugin) {
  plugin_->hold_whole(true);
}
WholeParameters::~WholeParameters() { plugin_->hold_whole(false); }

// Summed in f64, where finite f32 values cannot overflow.
bool weights_are_finite(const Model& model) {
  std::vector<Tensor> weights;
  for (const auto& [name, tensor] : model.state_dict())
    if (is_floating(tensor.dtype()))
      weights.push_back(untracked::contiguous(numbers_here(tensor).to(tensor.device())));
  return std::isfinite(gradient_norm(weights).item());
}

}  // namespace booster
