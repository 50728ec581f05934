// optimizer_of: a program's formula on tensors as an UpdateRule.
#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/optim/optimizers.h"
#include "core/optim/update_rule.h"
#include "kernels/host/recording.h"
#include "platform/error.h"

#include <limits>

namespace booster {
namespace {

using kernels::OptimizerSlot;

// A tensor on memory of the step, which lives until the step ends.
template <class T>
Tensor seen(const T* data, const Shape& shape, DType dtype, Device device) {
  return from_memory(const_cast<T*>(data), shape, {dtype, device});
}

class FormulaRule : public UpdateRule {
 public:
  FormulaRule(OptimizerFormula formula, OptimizerOptions defaults)
      : formula_(std::move(formula)), defaults_(std::move(defaults)) {}

  const char* name() const override { return formula_.name.c_str(); }
  std::vector<OptionRange> options() const override {
    std::vector<OptionRange> ranges;
    for (const auto& [name, value] : defaults_)
      ranges.push_back({name.c_str(), std::numeric_limits<double>::lowest()});
    return ranges;
  }
  std::vector<std::string> state_names(const OptimizerOptions&) const override {
    return formula_.states;
  }
  kernels::StepNumbers numbers(const OptimizerOptions&) const override { return {.sgd = {}}; }

  void step(const GroupStep& group) const override {
    kernels::refuse_to_record("optimizer.step",
                              "because the host reads the options of a formula's optimizer",
                              "step() after replay()");
    const NoGradGuard no_grad;
    const PolicyScope no_casts(nullptr);
    for (int64_t i = 0; i < group.slots.count; ++i)
      if (group.slots.slots[i].size > 0) step_one(group, group.slots.slots[i]);
  }

 private:
  void step_one(const GroupStep& group, const OptimizerSlot& slot) const {
    if (slot.rounding != UpdateRounding::nearest)
      fail(
          "{}: a formula rounds to the nearest value; want masters, or another optimizer for bf16 "
          "parameters without them",
          name());
    const Shape shape = {slot.size};
    const DType dtype = slot.value_dtype == DType::f64 ? DType::f64 : DType::f32;
    Tensor value = seen(static_cast<char*>(slot.value), shape, slot.value_dtype, group.device);
    FormulaStep one = {.value = value.to(dtype),
                       .gradient = true_gradient(group, slot).to(dtype),
                       .state = {},
                       .options = group.options,
                       .count = seen(slot.steps, {}, DType::i64, group.device).to(DType::f64) + 1};
    std::vector<Tensor> states;
    void* const memory[] = {slot.state1, slot.state2, slot.state3};
    for (size_t i = 0; i < formula_.states.size(); ++i)
      states.push_back(seen(static_cast<char*>(memory[i]), shape, dtype, group.device));
    one.state = states;
    formula_.update(one);
    check_result(one.value, shape, "value");
    write(value, one.value, group);
    for (size_t i = 0; i < states.size(); ++i) {
      check_result(one.state[i], shape, formula_.states[i].c_str());
      write(states[i], one.state[i], group);
    }
    if (slot.copy)
      seen(static_cast<char*>(slot.copy), shape, slot.copy_dtype, group.device).copy_(value);
  }

  static Tensor true_gradient(const GroupStep& group, const OptimizerSlot& slot) {
    Tensor g =
        seen(static_cast<const char*>(slot.grad), {slot.size}, slot.grad_dtype, group.device);
    if (is_16_bit(g.dtype())) g = g.to(DType::f32);
    if (group.control.inverse_scale)
      g = g * seen(group.control.inverse_scale, {}, DType::f32, group.device);
    if (group.control.clip_factor)
      g = g * seen(group.control.clip_factor, {}, DType::f64, group.device).to(g.dtype());
    return g;
  }

  void check_result(const Tensor& x, const Shape& shape, const char* what) const {
    check(x.defined() && x.shape() == shape && is_floating(x.dtype()),
          "{}: the formula's {} has another form; got {}, want {} floating numbers", name(), what,
          x.defined() ? x.shape().to_string() : "an undefined tensor", shape);
  }

  // Keeps the old numbers in a step that is skipped, which only the device knows.
  static void write(Tensor& to, const Tensor& from, const GroupStep& group) {
    if (!group.control.found_inf) {
      to.copy_(from);
      return;
    }
    const Tensor found = seen(group.control.found_inf, {}, DType::f32, group.device);
    to.copy_(where(equal(found, 0), from.to(to.dtype()), to));
  }

  OptimizerFormula formula_;
  OptimizerOptions defaults_;
};

}  // namespace

Optimizer optimizer_of(OptimizerFormula formula, ParameterGroups groups,
                       const GroupOptions& options) {
  check(!formula.name.empty() && formula.update && formula.states.size() <= max_states,
        "optimizer_of: want a name, a function and at most {} states; got \"{}\", {} and {}",
        max_states, formula.name, formula.update ? "one" : "none", formula.states.size());
  check(options.numbers().contains("lr"), "{}: no learning rate; want an option lr", formula.name);
  auto rule = std::make_unique<FormulaRule>(std::move(formula), options.numbers());
  return Optimizer(std::move(rule), std::move(groups), options.numbers());
}

}  // namespace booster
