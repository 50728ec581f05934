#include "mixed_precision/scaling/scaled_step.h"

#include "core/autograd/leaf_gradients.h"
#include "core/autograd/tape.h"
#include "core/optim/clip.h"
#include "kernels/catalogue.h"
#include "mixed_precision/interface/precision.h"
#include "mixed_precision/scaling/overflow_memory.h"

#include <algorithm>

namespace booster {

namespace {

bool has_gradients(const Optimizer& optimizer) { return !optimizer.parameters_with_grad().empty(); }

// Considers all gradients that the optimizer could have. Ranks with different layers thus get the
// same answer and use the same factor.
bool has_16_bit_gradients(const Optimizer& optimizer) {
  return std::ranges::any_of(optimizer.parameters(), [](const NamedTensor& parameter) {
    return is_16_bit(grad_dtype(parameter.tensor));
  });
}

}  // namespace

void widen_gradients(const Optimizer& optimizer) {
  for (const auto& [name, parameter] : optimizer.parameters_with_grad()) {
    if (!is_16_bit(parameter.grad().dtype())) continue;
    const Tensor grad = untracked::cast(parameter.grad(), DType::f32);
    set_memory_tag(grad, MemoryTag::gradients);
    if (grad.shape() == parameter.shape())
      parameter.set_grad(grad);
    else
      set_grad_part(parameter, grad);
  }
}

void ScaledStep::serve(const Optimizers& optimizers) {
  for (const Optimizer& optimizer : optimizers) entries_.push_back({optimizer});
}

ScaledStep::Entry& ScaledStep::entry(const Optimizer& optimizer) {
  for (Entry& entry : entries_)
    if (entry.optimizer == optimizer) return entry;
  fail("loss scale: unknown optimizer; want one that was boosted with this strategy");
}

void ScaledStep::check_known(const Entry& entry) {
  check(entry.gradients != Gradients::unknown || !has_gradients(entry.optimizer),
        "loss scale: an optimizer has gradients of an unscaled loss; want booster.backward(loss, "
        "optimizer), or zero_grad before it");
}

void ScaledStep::begin() {
  for (Entry& entry : entries_) {
    scaler_.start(entry.optimizer.device());
    check_known(entry);
    bring_to_scale(entry);
  }
}

void ScaledStep::bring_to_scale(Entry& entry) const {
  const bool scaled = entry.gradients == Gradients::scaled;
  if (scaled && entry.generation == scaler_.generation()) return;
  if (has_gradients(entry.optimizer)) {
    const Tensor factor = untracked::clone(scaler_.scale_tensor());
    if (scaled)
      kernels::on(factor.device())
          .binary(kernels::BinaryOp::mul, factor.view(), factor.view(), entry.inverse.view());
    scale_gradients(entry.optimizer.gradients(), factor);
  }
  if (!entry.inverse.defined()) entry.inverse = empty_like(scaler_.inverse_tensor());
  entry.inverse.copy_(scaler_.inverse_tensor());
  entry.generation = scaler_.generation();
  entry.gradients = Gradients::scaled;
}

Tensor ScaledStep::pending_inverse(const Optimizer& optimizer) const {
  const Entry& mine = const_cast<ScaledStep&>(*this).entry(optimizer);
  return mine.gradients == Gradients::scaled ? mine.inverse : Tensor();
}

void ScaledStep::unscale(Optimizer& optimizer) {
  Entry& mine = entry(optimizer);
  check_known(mine);
  if (mine.gradients != Gradients::scaled) return;
  if (widens_) widen_gradients(optimizer);
  note_overflow(mine.found_inf, unscale_gradients(optimizer, mine.inverse));
  mine.gradients = Gradients::plain;
}

Verdict ScaledStep::inspect(Optimizer& optimizer) {
  Entry& mine = entry(optimizer);
  check_known(mine);
  scaler_.start(optimizer.device());
  if (!widens_ && has_16_bit_gradients(optimizer)) unscale(optimizer);
  const Tensor inverse = pending_inverse(optimizer);
  Tensor found = mine.found_inf.defined() ? untracked::clone(mine.found_inf) : Tensor();
  if (!scaler_.policy().skips) return {{}, inverse, untracked::clone(scaler_.scale_tensor())};
  if (inverse.defined() || !found.defined())
    note_overflow(found, find_non_finite(optimizer, inverse));
  return {found, inverse, untracked::clone(scaler_.scale_tensor())};
}

void ScaledStep::update(const Verdict& agreed) {
  const Device device = scaler_.scale_tensor().device();
  scaler_.update(agreed.found_inf.defined() ? agreed.found_inf : zeros({}, {DType::f32, device}));
}

void ScaledStep::abandon(const Optimizer& optimizer) {
  Entry& mine = entry(optimizer);
  mine.gradients = Gradients::unknown;
  mine.found_inf = {};
}

}  // namespace booster
