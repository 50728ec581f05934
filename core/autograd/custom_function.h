// User-defined functions under op policies, like torch's custom_fwd and custom_bwd: the forward may
// request a dtype, and the backward runs under the same policy as the forward, wherever it is
// called.
//
//   Tensor stable_thing(Tensor x) {
//     const CustomForward forward({&x}, DType::f32);   // x is now f32, ops inside are not cast
//     Tensor y = ...;                                  // with NoGradGuard or untracked functions
//     return record(y, "stable_thing", {x}, [memory = forward.memory()](const Tensor& g,
//                                                                       Gradients& d) {
//       const PolicyScope scope = memory.scope();
//       d[0] = ...;
//     });
//   }
//
// One object serves one call on one thread.
#pragma once

#include "core/autograd/op_policy.h"

#include <memory>
#include <optional>

namespace booster {

// The policy of a forward, kept for its backward. It is a copy, so the policy itself may be
// destroyed.
class PolicyMemory {
 public:
  explicit PolicyMemory(const OpPolicy* policy);
  // Activates the policy until the scope ends; no policy if the forward ran without one.
  PolicyScope scope() const;

 private:
  std::shared_ptr<const OpPolicy> policy_;
};

class CustomForward {
 public:
  // Without `cast_inputs` the forward runs under the active policy. With it and an active policy,
  // the floating arguments (except f64) on the policy's device are cast to that dtype
  // (differentiably) and the forward runs without a policy. Without a policy nothing is cast.
  explicit CustomForward(std::initializer_list<Tensor*> arguments,
                         std::optional<DType> cast_inputs = std::nullopt);
  // The policy that backward must run under.
  PolicyMemory memory() const { return PolicyMemory(current_policy()); }

 private:
  PolicyScope scope_;
};

}  // namespace booster
