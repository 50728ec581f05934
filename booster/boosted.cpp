#include "booster/boosted.h"

#include "core/autograd/op_policy.h"
#include "kernels/system/trace.h"

namespace booster {

Tensor BoostedModel::operator()(const Tensor& x) const {
  const kernels::TraceScope span("forward", kernels::SpanKind::phase);
  Session& session = *session_;
  session.plugin->before_forward();
  if (session.watcher) session.watcher->forward_begins(x);
  const PolicyScope numbers(session.precision->policy(x.device()));
  Tensor y = session.precision->cast_output(model_(session.precision->cast_input(x)));
  session.plugin->after_forward(y);
  if (y.requires_grad()) session.end_pass(Pass::forward);
  return y;
}

void BoostedOptimizer::zero_grad() {
  const kernels::TraceScope span("zero_grad", kernels::SpanKind::phase);
  session_->zero_grad();
}

DeviceNumber BoostedOptimizer::clip_grad_by_norm(double max_norm) {
  const kernels::TraceScope span("clip", kernels::SpanKind::phase);
  session_->sync_grads();
  Optimizer& optimizer = session_->optimizer;
  const Tensor factor = session_->precision->norm_factor(optimizer);
  const DeviceNumber norm = optimizer.clip_grad_by_norm(max_norm, 2, factor);
  if (session_->watcher) session_->watcher->gradients_are_known();
  return norm;
}

void BoostedOptimizer::clip_grad_by_value(double limit) {
  session_->sync_grads();
  session_->precision->unscale(session_->optimizer);
  session_->optimizer.clip_grad_by_value(limit);
  if (session_->watcher) session_->watcher->gradients_are_known();
}

NoSyncGuard::NoSyncGuard(std::shared_ptr<Session> session) : session_(std::move(session)) {
  session_->plugin->set_sync(false);
  session_->iteration->grads_are_local = true;
}
NoSyncGuard::~NoSyncGuard() {
  session_->plugin->set_sync(true);
  session_->iteration->grads_are_local = false;
}

}  // namespace booster
