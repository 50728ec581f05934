// One optimizer step: what is needed is gathered first, and only then is anything changed.
#include "core/autograd/op_policy.h"
#include "core/optim/clip.h"
#include "core/optim/optimizer_body.h"

namespace booster {
namespace {

// A parameter that takes part in this step, and the tensors that must outlive the kernel.
struct Participant {
  OptimizedParameter* parameter;
  Tensor grad;
  std::array<Tensor, 2> state;
  Tensor copy;  // the 16-bit numbers rewritten from the new value
};

// Where the new value is needed in 16 bits: the parameter itself if a master is updated, else the
// copy that autocast keeps of a leaf.
Tensor working_copy(const OptimizedParameter& parameter) {
  if (parameter.master.defined()) return parameter.tensor;
  if (parameter.tensor.dtype() != DType::f32) return {};
  const Tensor copy = cast_copy(parameter.tensor, DType::bf16);
  return copy.defined() ? copy : cast_copy(parameter.tensor, DType::f16);
}

// Working numbers that somebody changed since the last step (loaded weights) are the truth.
void refresh_master(OptimizedParameter& parameter) {
  if (!parameter.master.defined() || parameter.master_version == parameter.tensor.version()) return;
  parameter.master.copy_(parameter.tensor);
}

Participant participant(OptimizedParameter& parameter, size_t states) {
  refresh_master(parameter);
  const MemoryScope memory(MemoryTag::optimizer_state);
  Participant p = {&parameter, dense_grad(parameter.tensor), parameter.state,
                   working_copy(parameter)};
  for (size_t i = 0; i < states; ++i)
    if (!p.state[i].defined())
      p.state[i] =
          zeros(parameter.tensor.shape(), {parameter.state_dtype(), parameter.tensor.device()});
  return p;
}

std::vector<Participant> participants(Optimizer::Body::Group& group, const UpdateRule& rule) {
  std::vector<Participant> result;
  const size_t states = rule.state_names(group.options).size();
  for (auto& parameter : group.parameters)
    if (parameter.tensor.grad().defined()) result.push_back(participant(parameter, states));
  return result;
}

kernels::OptimizerSlot slot_of(const Participant& p, const StepCount& steps) {
  const Tensor& value = p.parameter->value();
  kernels::OptimizerSlot slot = {};
  slot.value = value.data();
  slot.value_dtype = value.dtype();
  slot.grad = p.grad.data();
  slot.grad_dtype = p.grad.dtype();
  slot.state1 = p.state[0].defined() ? p.state[0].data() : nullptr;
  slot.state2 = p.state[1].defined() ? p.state[1].data() : nullptr;
  slot.copy = p.copy.defined() ? p.copy.data() : nullptr;
  slot.copy_dtype = p.copy.defined() ? p.copy.dtype() : DType::f32;
  slot.size = value.numel();
  slot.step = steps.tried;
  if (steps.skipped.defined()) slot.skipped = static_cast<const int64_t*>(steps.skipped.data());
  slot.first = !p.parameter->state[0].defined();
  slot.rounding = p.parameter->rounding;
  if (p.parameter->compensation.defined()) slot.compensation = p.parameter->compensation.data();
  slot.noise_seed = p.parameter->noise_seed;
  return slot;
}

// The counters of a step that may be skipped: whether it is, the device knows.
class StepCounters {
 public:
  StepCounters(Device device, const float* found_inf) : device_(device), found_inf_(found_inf) {}

  // One more step is tried.
  void begin(StepCount& steps) {
    ++steps.tried;
    if (!found_inf_) return;
    if (!steps.skipped.defined()) steps.skipped = zeros({}, {DType::i64, device_});
    counters_.push_back({steps.skipped.data(), 1, DType::i64});
  }
  void end() const {
    if (!found_inf_) return;
    kernels::on(device_).count_skipped({counters_.data(), static_cast<int64_t>(counters_.size())},
                                       found_inf_);
  }

 private:
  Device device_;
  const float* found_inf_;
  std::vector<kernels::TensorSpan> counters_;
};

// Takes over the state and tells autograd which numbers are new (in a skipped step: none are).
void commit(Participant& p) {
  OptimizedParameter& parameter = *p.parameter;
  parameter.state = std::move(p.state);
  parameter.tensor.bump_version();
  if (parameter.master.defined()) {
    parameter.master.bump_version();
    parameter.master_version = parameter.tensor.version();
  } else if (p.copy.defined()) {
    mark_cast_copy_current(parameter.tensor, p.copy.dtype());
  }
}

}  // namespace

void Optimizer::Body::step(kernels::StepControl control) {
  const Device device = groups[0].parameters[0].tensor.device();
  if (control.clip_factor) apply_clip();
  const Tensor clip = clip_factor;
  forget_clip();
  if (clip.defined()) control.clip_factor = static_cast<const float*>(clip.data());

  std::vector<std::vector<Participant>> gathered;
  for (auto& group : groups) gathered.push_back(participants(group, *rule));
  Tensor norm;
  if (rule->max_grad_norm(defaults) > 0) norm = gradient_norm(gradients(), 2);

  StepCounters counters(device, control.found_inf);
  std::vector<kernels::OptimizerSlot> slots;
  for (size_t i = 0; i < groups.size(); ++i) {
    StepCount& of_group = groups[i].steps;
    counters.begin(of_group);
    slots.clear();
    for (const auto& p : gathered[i]) {
      StepCount& own = p.parameter->steps;
      counters.begin(own);
      slots.push_back(slot_of(p, rule->counts_by_group() ? of_group : own));
    }
    rule->step(device, {slots.data(), static_cast<int64_t>(slots.size())}, groups[i].options,
               control, norm.defined() ? static_cast<const double*>(norm.data()) : nullptr);
    for (auto& p : gathered[i]) commit(p);
  }
  counters.end();
}

}  // namespace booster
