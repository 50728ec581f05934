#include "core/autograd/deferred_gradients.h"

#include "core/autograd/node.h"
#include "core/autograd/tracking.h"
#include "platform/trace.h"

#include <algorithm>
#include <utility>

namespace booster {
namespace {
thread_local DeferredGradients* queue_in_force = nullptr;
}  // namespace

DeferredGradients* DeferredGradients::current() { return queue_in_force; }

DeferredGradients::Scope::Scope(DeferredGradients& queue, const Tensors& needed)
    : before_(std::exchange(queue_in_force, &queue)) {
  queue.needed_ = needed;
}
DeferredGradients::Scope::~Scope() { queue_in_force = before_; }

// Accepts only leaves and their casts: a computed weight may depend on a gradient that is needed
// immediately.
bool DeferredGradients::takes(const Edge& edge) const {
  const Node* node = edge.node.get();
  if (!node->leaf() && node->inputs().size() == 1) node = node->inputs()[0].node.get();
  const auto is_it = [&](const auto& needed) { return node->leaf()->same_body(needed.tensor); };
  return node && node->leaf() && std::ranges::none_of(needed_, is_it);
}

void DeferredGradients::run() {
  const NoGradGuard no_grad;
  const MemoryScope memory(MemoryTag::workspace);
  for (Item& item : std::exchange(items_, {})) {
    const kernels::TraceScope span(item.op, kernels::SpanKind::op);
    backward_from(item.to, std::exchange(item.gradient, nullptr)());
  }
}

bool GradientSchedule::puts_off(int i) const {
  const DeferredGradients* queue = DeferredGradients::current();
  return queue && !d_.ways_ && !grad_enabled() && queue->takes(d_.node_.inputs()[i]);
}

void GradientSchedule::put_off(int i, std::function<Tensor()> gradient) {
  DeferredGradients::current()->items_.push_back(
      {d_.node_.inputs()[i], d_.node_.name(), std::move(gradient)});
}

}  // namespace booster
