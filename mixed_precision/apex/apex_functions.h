// Apex's decorators for O1, as wrappers and scopes. They have an effect only while an O1 policy is
// active, in a forward pass at that level, as Apex's do only while its handle is active.
//
//   auto attention = half_function(my_attention);   // floating arguments are cast to f16
//   {
//     const ApexFunctionScope scope(OpClass::fp32);  // every op in here casts to f32
//   }
//   const PolicyScope as_it_is(nullptr);             // Apex's disable_casts()
//
// For one thread.
#pragma once

#include "core/autograd/op_policy.h"

#include <optional>
#include <type_traits>
#include <utility>

namespace booster {

// Casts a function's tensor arguments as an op of that class does, then calls it.
template <class F>
auto cast_arguments_of(OpClass op_class, F function) {
  return [op_class, function = std::move(function)](auto... arguments) {
    if (const OpPolicy* policy = current_policy()) {
      std::vector<Tensor*> tensors;
      const auto collect = [&](auto& argument) {
        if constexpr (std::is_same_v<std::remove_cvref_t<decltype(argument)>, Tensor>)
          tensors.push_back(&argument);
      };
      (collect(arguments), ...);
      OpPolicy as_one_op = *policy;
      as_one_op.set(Op::matmul, op_class);
      cast_arguments(as_one_op, Op::matmul, tensors);
    }
    return function(arguments...);
  };
}

template <class F>
auto half_function(F function) {
  return cast_arguments_of(OpClass::lower_precision, std::move(function));
}
template <class F>
auto float_function(F function) {
  return cast_arguments_of(OpClass::fp32, std::move(function));
}
template <class F>
auto promote_function(F function) {
  return cast_arguments_of(OpClass::widest, std::move(function));
}

// Gives every op of this thread one class until the scope ends: lower_precision, fp32 or widest.
class ApexFunctionScope {
 public:
  explicit ApexFunctionScope(OpClass op_class) {
    if (!current_policy()) return;
    policy_ = *current_policy();
    policy_.classes.fill(op_class);
    scope_.emplace(&policy_);
  }

 private:
  OpPolicy policy_;
  std::optional<PolicyScope> scope_;
};

}  // namespace booster
