#include "plugins/interface/plugin.h"

#include "core/autograd/tape.h"

#include <utility>

namespace booster {

PassScope::~PassScope() {
  while (!parts_.empty()) undo_last(false);
}

void PassScope::add(PassScope inner) {
  for (Part& part : inner.parts_) parts_.push_back(std::move(part));
  inner.parts_.clear();
}

void PassScope::end() {
  while (!parts_.empty()) {
    if (parts_.back().end) parts_.back().end();
    undo_last(true);
  }
}

void PassScope::undo_last(bool has_ended) {
  const Part part = std::move(parts_.back());
  parts_.pop_back();
  if (!has_ended && part.abandon) part.abandon();
  if (part.restore) part.restore();
}

Layout Plugin::layout() const {
  Layout layout = mesh().layout();
  layout.zero_stage = zero_stage_;
  return layout;
}

Tensor Plugin::run(const Tensors& input, const Tensors& target, const MicroStep& step) {
  const Tensor loss = step.loss(step.forward(input), target);
  backward(step.scale(loss));
  return loss.detach();
}

}  // namespace booster
