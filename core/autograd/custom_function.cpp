#include "core/autograd/op_policy.h"

namespace booster {
namespace {

bool is_cast(const OpPolicy& policy, const Tensor& x) {
  return x.defined() && is_floating(x.dtype()) && x.dtype() != DType::f64 &&
         x.device().type == policy.device;
}

// Casts the arguments and returns the policy that the forward runs under.
const OpPolicy* enter(std::initializer_list<Tensor*> arguments, std::optional<DType> dtype) {
  const OpPolicy* policy = current_policy();
  if (!policy || !dtype) return policy;
  for (Tensor* x : arguments)
    if (is_cast(*policy, *x)) *x = cast(*x, *dtype);
  return nullptr;
}

}  // namespace

PolicyMemory::PolicyMemory(const OpPolicy* policy)
    : policy_(policy ? std::make_shared<const OpPolicy>(*policy) : nullptr) {}

PolicyScope PolicyMemory::scope() const { return PolicyScope(policy_.get()); }

CustomForward::CustomForward(std::initializer_list<Tensor*> arguments,
                             std::optional<DType> cast_inputs)
    : scope_(enter(arguments, cast_inputs)) {}

}  // namespace booster
