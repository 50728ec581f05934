// Optimizer steps over all parameters in one call: the formulas of optimizer_math.h for every
// element, in one pass over memory (two for LAMB). Each device has its own walk over a part of a
// parameter: kernels/optimizer/cpu_walk.h, kernels/cuda/optimizer_walk.cuh.
#include "kernels/arguments/multi_tensor.h"
#include "kernels/optimizer/element_rules.h"

#ifdef BOOSTER_ON_GPU
#include "kernels/cuda/optimizer_walk.cuh"
#else
#include "kernels/optimizer/cpu_walk.h"
#endif

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

using Parameters = Cut<OptimizerSlot>;

ON_DEVICE bool must_skip(const StepControl& control) {
  return control.found_inf && *control.found_inf != 0;
}

// Calls body(slot, part, typed null pointer of the compute type) for a chunk of the parameters.
template <class Body>
ON_DEVICE void visit_part(const Chunks<OptimizerSlot>& chunks, int64_t chunk, Body&& body) {
  const TensorPart part = chunks.find(chunk);
  const OptimizerSlot& slot = chunks.items[part.tensor];
  visit_compute(slot.value_dtype, [&](auto* type) { body(slot, part, type); });
}

// Applies an update that keeps `states` values per element.
template <int states, template <class> class Update, class Step>
void step_all(const OptimizerSlots& slots, const Step* step, const StepControl& control) {
  const Parameters cut(slots.slots, slots.count);
  for_each_block<chunks_at_once>(cut.count(), [=, chunks = cut.chunks()] ON_DEVICE(int64_t chunk) {
    if (must_skip(control)) return;
    visit_part(chunks, chunk, [&]<class C>(const OptimizerSlot& slot, const TensorPart& part, C*) {
      const GradientFactor<C> factor(control, step->maximize);
      const Update<C> update = once_per_block<Update<C>>([&] { return Update<C>(*step, slot); });
      update_values<UpdatePass::step, states, C>(slot, part, [=](C& p, C g, C& a, C& b, C& c) {
        if constexpr (states == 0) update(p, factor(g));
        if constexpr (states == 1) update(p, factor(g), a);
        if constexpr (states == 2) update(p, factor(g), a, b);
        if constexpr (states == 3) update(p, factor(g), a, b, c);
      });
    });
  });
}

// Sums over each tensor's chunks; gives 0 in a skipped step, which writes no terms.
void add_up_squares(const Parameters& cut, int64_t tensors, const double* terms, double* squares,
                    const StepControl& control) {
  for_each_block(tensors, [=, chunks = cut.chunks()] ON_DEVICE(int64_t tensor) {
    const int64_t first = chunks.first_of(tensor);
    const int64_t count = must_skip(control) ? 0 : chunks.end_of(tensor) - first;
    const double* of_tensor = terms + 2 * first;
    const double value = sum_of<double>(count, [=](int64_t i) { return of_tensor[2 * i]; });
    const double update = sum_of<double>(count, [=](int64_t i) { return of_tensor[2 * i + 1]; });
    if (!first_lane()) return;
    squares[2 * tensor] = value;
    squares[2 * tensor + 1] = update;
  });
}

}  // namespace

void write_step_numbers(StepNumbers* to, StepNumbers from) {
  for_each_block(1, [=] ON_DEVICE(int64_t) {
    if (first_lane()) *to = from;
  });
}

void sgd_step(OptimizerSlots slots, const SgdStep* step, bool momentum, StepControl control) {
  if (momentum)
    step_all<1, MomentumUpdate>(slots, step, control);
  else
    step_all<0, SgdUpdate>(slots, step, control);
}

void adam_step(OptimizerSlots slots, const AdamStep* step, StepControl control) {
  step_all<2, AdamUpdate>(slots, step, control);
}

void rmsprop_step(OptimizerSlots slots, const RmspropStep* step, bool momentum, bool centered,
                  StepControl control) {
  if (momentum && centered)
    step_all<3, CenteredRmspropMomentumUpdate>(slots, step, control);
  else if (centered)
    step_all<2, CenteredRmspropUpdate>(slots, step, control);
  else if (momentum)
    step_all<2, RmspropMomentumUpdate>(slots, step, control);
  else
    step_all<1, RmspropUpdate>(slots, step, control);
}

void element_step(OptimizerSlots slots, const ElementStep* step, ElementRule rule,
                  StepControl control) {
  switch (rule) {
    case ElementRule::adadelta: return step_all<2, AdadeltaUpdate>(slots, step, control);
    case ElementRule::adagrad: return step_all<1, AdagradUpdate>(slots, step, control);
    case ElementRule::adamax: return step_all<2, AdamaxUpdate>(slots, step, control);
    case ElementRule::asgd: return step_all<1, AsgdUpdate>(slots, step, control);
    case ElementRule::nadam: return step_all<2, NadamUpdate>(slots, step, control);
    case ElementRule::radam: return step_all<2, RadamUpdate>(slots, step, control);
    case ElementRule::rprop: return step_all<2, RpropUpdate>(slots, step, control);
  }
}

void lamb_moments(OptimizerSlots slots, const LambStep* step, const double* grad_norm,
                  double* squares, StepControl control) {
  const Parameters cut(slots.slots, slots.count);
  const Workspace<double> sums(2 * cut.count() + 1);
  double* terms = sums.data();
  for_each_block<chunks_at_once>(cut.count(), [=, chunks = cut.chunks()] ON_DEVICE(int64_t chunk) {
    if (must_skip(control)) return;
    visit_part(chunks, chunk, [&]<class C>(const OptimizerSlot& slot, const TensorPart& part, C*) {
      const LambUpdate<C> lamb = once_per_block<LambUpdate<C>>(
          [&] { return LambUpdate<C>(*step, slot, lamb_divisor(*step, grad_norm, control)); });
      update_moments(slot, part, GradientFactor<C>(control, false), lamb, terms + 2 * chunk);
    });
  });
  add_up_squares(cut, slots.count, terms, squares, control);
}

void lamb_apply(OptimizerSlots slots, const LambStep* step, const double* grad_norm,
                const double* squares, StepControl control) {
  const Parameters cut(slots.slots, slots.count);
  for_each_block<chunks_at_once>(cut.count(), [=, chunks = cut.chunks()] ON_DEVICE(int64_t chunk) {
    if (must_skip(control)) return;
    visit_part(chunks, chunk, [&]<class C>(const OptimizerSlot& slot, const TensorPart& part, C*) {
      const LambUpdate<C> lamb = once_per_block<LambUpdate<C>>(
          [&] { return LambUpdate<C>(*step, slot, lamb_divisor(*step, grad_norm, control)); });
      const double* both = squares + 2 * part.tensor;
      const C rate = lamb.lr * lamb.trust_ratio(::sqrt(both[0]), ::sqrt(both[1]));
      update_values<UpdatePass::apply, 2, C>(slot, part, [=](C& p, C, C m, C v, C) {
        p = lamb.kept * p - rate * lamb.update(p, m, v);
      });
    });
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
