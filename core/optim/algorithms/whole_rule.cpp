#include "core/optim/algorithms/whole_rule.h"

#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "kernels/catalogue.h"

#include <vector>

namespace booster {
namespace {

// Returns a number on the device as a tensor without dimensions.
template <class T>
Tensor number_at(const T* number, Device device) {
  return from_memory(const_cast<T*>(number), {}, {dtype_of<T>(), device}, [] {});
}

Tensor true_gradient(const StepTensors& p, const GroupStep& group, DType dtype) {
  Tensor grad = reshape(cast(p.grad, dtype), p.value.shape());
  if (const float* factor = group.control.inverse_scale)
    grad = grad * cast(number_at(factor, group.device), dtype);
  if (const double* factor = group.control.clip_factor)
    grad = grad * cast(number_at(factor, group.device), dtype);
  const auto maximize = group.options.find("maximize");
  return maximize != group.options.end() && maximize->second != 0 ? -grad : grad;
}

}  // namespace

kernels::StepNumbers WholeRule::numbers(const OptimizerOptions& o) const {
  return {.sgd = {o.at("lr"), 0, 0, o.at("weight_decay"), false, false}};
}

// Computes u off the kernels, then steps as SGD does, with u as the gradient.
void WholeRule::step(const GroupStep& group) const {
  const NoGradGuard no_grad;
  const PolicyScope inside(nullptr);
  const float* found_inf = group.control.found_inf;
  const Tensor taken = found_inf ? equal(number_at(found_inf, group.device), 0.0) : Tensor();
  std::vector<kernels::OptimizerSlot> slots(group.slots.slots,
                                            group.slots.slots + group.slots.count);
  std::vector<Tensor> updates;
  for (size_t i = 0; i < slots.size(); ++i) {
    const StepTensors& p = group.tensors[i];
    const DType dtype = p.value.dtype() == DType::f64 ? DType::f64 : DType::f32;
    const Tensor t = cast(p.steps, DType::f64) + 1.0;
    const Update next =
        update(cast(p.value, dtype), true_gradient(p, group, dtype), p.state, t, group.options);
    for (size_t s = 0; s < max_states; ++s)
      if (next.state[s].defined())
        Tensor(p.state[s])
            .copy_(taken.defined() ? where(taken, next.state[s], p.state[s]) : next.state[s]);
    updates.push_back(contiguous(next.u));
    slots[i].grad = updates.back().data();
    slots[i].grad_dtype = dtype;
  }
  kernels::on(group.device)
      .sgd_step({slots.data(), group.slots.count}, &group.numbers->sgd, false,
                {.found_inf = found_inf});
}

}  // namespace booster
