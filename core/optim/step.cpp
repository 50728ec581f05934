// One optimizer step. It gathers all data before it changes anything.
#include "core/autograd/op_policy.h"
#include "core/autograd/policy_dtypes.h"
#include "core/optim/clip.h"
#include "core/optim/optimizer_body.h"
#include "core/optim/step_copies.h"
#include "core/optim/update_rule.h"
#include "core/tensor/computed_on_use.h"
#include "core/tensor/device_number.h"
#include "kernels/arguments/multi_tensor.h"
#include "kernels/catalogue.h"
#include "kernels/host/recording.h"
#include "platform/error.h"

namespace booster {
namespace {

// A parameter that takes part in this step, and the tensors that must outlive the kernel: its owned
// part, on the step's device.
struct Participant {
  OptimizedParameter* parameter;
  Tensor value, grad;
  std::array<Tensor, max_states> state;
  Tensor copy = {};  // 16-bit copy, rewritten from the new value
};

// Returns the 16-bit tensor to write the new value to. It is the parameter itself if a master is
// updated, else autocast's copy of a leaf. A copy on another device is remade on its next use.
Tensor working_copy(const OptimizedParameter& parameter) {
  if (kernels::is_recording()) return {};  // recorded work converts the parameter itself
  if (parameter.master.defined()) return parameter.working();
  if (parameter.tensor.dtype() != DType::f32) return {};
  if (parameter.home() != parameter.tensor.device()) return {};
  Tensor copy = cast_copy(parameter.tensor, DType::bf16);
  if (!copy.defined()) copy = cast_copy(parameter.tensor, DType::f16);
  return copy.defined() ? parameter.owned_of(copy) : copy;
}

Participant participant(OptimizedParameter& parameter, const std::vector<RuleState>& states,
                        StepCopies& copies) {
  const MemoryScope memory(MemoryTag::optimizer_state);
  Participant p = {.parameter = &parameter,
                   .value = copies.update(parameter.value()),
                   .grad = copies.read(parameter.gradient()),
                   .state = parameter.state};
  p.copy = copies.overwrite(working_copy(parameter));
  const DType dtype = parameter.state_dtype();
  for (size_t i = 0; i < states.size(); ++i)
    if (!p.state[i].defined())
      p.state[i] = zeros(states[i].shape, {dtype, parameter.home()});
    else if (p.state[i].dtype() != dtype)  // the model was converted since
      p.state[i] = untracked::cast(p.state[i], dtype);
  return p;
}

std::vector<Participant> participants(Optimizer::Body::Group& group, const UpdateRule& rule,
                                      StepCopies& copies) {
  std::vector<Participant> result;
  result.reserve(group.parameters.size());
  for (auto& parameter : group.parameters) {
    parameter.refresh_master();  // frozen ones too: after the step all are in step
    if (!parameter.tensor.grad().defined()) continue;
    const auto states = rule.states(group.options, parameter.kept_shape());
    result.push_back(participant(parameter, states, copies));
  }
  return result;
}

kernels::OptimizerSlot slot_of(const Participant& p, const StepCount& steps) {
  const OptimizedParameter& parameter = *p.parameter;
  kernels::OptimizerSlot slot = {};
  slot.value = p.value.data();
  slot.value_dtype = p.value.dtype();
  slot.grad = p.grad.data();
  slot.grad_dtype = p.grad.dtype();
  slot.state1 = p.state[0].defined() ? p.state[0].data() : nullptr;
  slot.state2 = p.state[1].defined() ? p.state[1].data() : nullptr;
  slot.state3 = p.state[2].defined() ? p.state[2].data() : nullptr;
  slot.copy = p.copy.defined() ? p.copy.data() : nullptr;
  slot.copy_dtype = p.copy.defined() ? p.copy.dtype() : DType::f32;
  slot.size = p.value.numel();
  slot.steps = static_cast<const int64_t*>(steps.on_device.data());
  slot.first = !parameter.state[0].defined();
  slot.rounding = parameter.rounding;
  if (parameter.compensation.defined()) slot.compensation = parameter.compensation.data();
  slot.noise_seed = parameter.noise_seed;
  slot.begin = parameter.owned().begin;
  return slot;
}

// Takes over the state and bumps versions for autograd, even in a skipped step, which changes no
// values.
void commit(Participant& p) {
  OptimizedParameter& parameter = *p.parameter;
  parameter.state = std::move(p.state);
  parameter.tensor.bump_version();
  if (parameter.master.defined()) {
    parameter.master.bump_version();
    parameter.mark_in_step();
  } else if (p.copy.defined()) {
    mark_cast_copy_current(parameter.tensor, p.copy.dtype());
  }
}

// A step of all groups.
class Step {
 public:
  Step(Optimizer::Body& optimizer, const kernels::StepControl& control);
  void run();

 private:
  struct Work {
    std::vector<Participant> participants;
    std::vector<kernels::OptimizerSlot> slots;
    GroupStep call;
  };

  void count(StepCount& steps);
  void add_group(Optimizer::Body::Group& group);
  void share_squares();
  // Returns true for a skipped step; meaningful only if the step runs on the host.
  bool changes_nothing() const { return control_.found_inf && *control_.found_inf != 0; }

  Optimizer::Body& optimizer_;
  const UpdateRule& rule_;
  const Device device_;  // where it runs
  StepCopies copies_;
  kernels::StepControl control_;
  std::vector<Work> work_;
  std::vector<kernels::TensorSpan> counters_;
  Tensor grad_norm_, squares_;
};

Step::Step(Optimizer::Body& optimizer, const kernels::StepControl& control)
    : optimizer_(optimizer),
      rule_(*optimizer.rule),
      device_(optimizer.home()),
      copies_(device_, optimizer.staging) {
  const Device there = optimizer.device();
  control_ = {.found_inf = copies_.read(control.found_inf, there),
              .inverse_scale = copies_.read(control.inverse_scale, there),
              .clip_factor = copies_.read(control.clip_factor, there)};
  bool clips = false;
  int64_t slots = 0;
  for (auto& group : optimizer.groups) {
    clips |= rule_.max_grad_norm(group.options) > 0;
    add_group(group);
    slots += static_cast<int64_t>(work_.back().slots.size());
  }
  if (clips) grad_norm_ = copies_.read(optimizer.gradient_norm(2));
  if (rule_.sums_squares()) squares_ = empty({2 * slots}, {DType::f64, device_});
  auto* squares = squares_.defined() ? static_cast<double*>(squares_.data()) : nullptr;
  for (Work& work : work_) {
    work.call.slots = {work.slots.data(), static_cast<int64_t>(work.slots.size())};
    if (grad_norm_.defined()) work.call.grad_norm = static_cast<const double*>(grad_norm_.data());
    work.call.squares = squares;
    if (squares) squares += 2 * work.slots.size();
  }
}

void Step::add_group(Optimizer::Body::Group& group) {
  Work work = {participants(group, rule_, copies_),
               {},
               {.device = device_,
                .options = group.options,
                .numbers = optimizer_.numbers_of(group),
                .control = control_}};
  count(group.steps);
  work.slots.reserve(work.participants.size());
  for (const Participant& p : work.participants) {
    StepCount& own = p.parameter->steps;
    count(own);
    work.slots.push_back(slot_of(p, rule_.counts_by_group() ? group.steps : own));
    if (rule_.needs_whole_parameters())
      work.call.tensors.push_back({p.value, p.grad, p.state, own.on_device});
  }
  work_.push_back(std::move(work));
}

// Makes the device count the step, if it is taken.
void Step::count(StepCount& steps) {
  if (!steps.on_device.defined()) steps.on_device = zeros({}, {DType::i64, device_});
  counters_.push_back({steps.on_device.data(), 1, DType::i64});
}

void Step::share_squares() {
  if (!squares_.defined() || !optimizer_.sharing.add_squares) return;
  Parameters parameters;
  for (const Work& work : work_)
    for (const Participant& p : work.participants)
      parameters.push_back({p.parameter->name, p.parameter->tensor});
  const Tensor shared = squares_.to(optimizer_.device());
  optimizer_.sharing.add_squares(shared, parameters);
  if (!shared.same_body(squares_)) squares_.copy_(shared);
}

void Step::run() {
  for (const Work& work : work_) rule_.prepare_step(work.call);
  share_squares();
  for (Work& work : work_) {
    rule_.step(work.call);
    for (Participant& p : work.participants) commit(p);
  }
  kernels::on(device_).count_steps({counters_.data(), static_cast<int64_t>(counters_.size())},
                                   control_.found_inf);
  if (copies_.wrote_any() && !changes_nothing()) copies_.give_back();
}

// Checks that a step can be recorded. A replay repeats neither the host's work at the first step
// nor its decisions from versions, so both must be done.
void check_recordable(const Optimizer::Body& optimizer) {
  if (!kernels::is_recording()) return;
  const auto refuse = [](const char* why, const char* instead) {
    kernels::refuse_to_record("optimizer.step", why, instead);
  };
  if (optimizer.rule->needs_whole_parameters())
    refuse("because its rule reads the options on the host", "step() after replay()");
  if (optimizer.clip_factor.defined())
    refuse("because its gradients were clipped by norm", "step() after replay()");
  for (const auto& group : optimizer.groups)
    for (const OptimizedParameter& parameter : group.parameters) {
      if (parameter.master.defined())
        refuse("because the host decides whether masters are newer than their parameters",
               "step() after replay()");
      if (parameter.tensor.grad().defined() && !parameter.steps.on_device.defined())
        refuse("because it is a parameter's first step, which makes its state",
               "a plain step before");
    }
}

}  // namespace

void Optimizer::Body::step(kernels::StepControl control) {
  check(!rule->minimizes(),
        "{}: a step evaluates the loss several times; got step() without a closure, want "
        "step(closure) of an optimizer that no Booster took",
        rule->name());
  compute_unread();  // logits of a head whose weight changes now
  check_recordable(*this);
  if (control.clip_factor) settle_clip();
  // Kept, because gradients that were neither dropped nor changed are still the clipped ones in the
  // next step.
  const Tensor clip = use_clip();
  if (clip.defined()) control.clip_factor = device_double(clip);
  Step(*this, control).run();
}

}  // namespace booster
