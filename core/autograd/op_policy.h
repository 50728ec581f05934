// Decides the dtype in which an op runs. Every differentiable op calls `apply_policy` with its name
// on entry. That is the only place that looks up the thread's policy and casts arguments. torch
// autocast, Apex O1, Paddle's levels and user lists are data for it.
//
// A policy belongs to one device type; tensors of another device, doubles, integers and undefined
// tensors are left untouched. Without a policy the cost is one thread-local read.
#pragma once

#include "core/tensor/tensor.h"

#include <array>
#include <atomic>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace booster {

class OpObserver;
extern std::atomic<OpObserver*> op_observer;  // core/autograd/observer.h

enum class Op : uint8_t {
#define OP(name) name,
#include "core/autograd/op_names.def"
#define UNARY(name, ...) name,
#define BINARY(name, ...) name,
#include "kernels/elementwise.def"
  count
};
inline constexpr int op_count = static_cast<int>(Op::count);
const char* name_of(Op op);
// Returns the op of this name. Throws with the nearest name if there is none.
Op op_named(const std::string& name);

// Classes of ops by the casts of their arguments: torch's classes, then the classes of only Apex or
// Paddle.
enum class OpClass : uint8_t {
  untouched,        // runs in the dtype that type promotion gives
  lower_precision,  // all are cast to the policy's 16-bit dtype
  fp32,             // all are cast to f32
  fp32_result,      // inputs are not cast; accumulates into and returns f32
  widest,           // from the left: lower dtype until an f32 makes it f32; an error for another
                    // 16-bit dtype before that
  banned,           // an error that names an alternative

  banned_lower,  // Apex: banned only if an argument has the lower dtype
  widen_pair,    // Apex: one dtype stays, f16 with f32 gives f32, any other mix is an error
  widen_list,    // Apex, cat and stack: the same, but other mixes stay unchanged

  lower_unless_fp32,        // Paddle: f32 if any argument is f32, else the lower dtype
  lower_unless_first_fp32,  // Paddle, normalisations: the first argument decides; only it is cast
                            // to the lower dtype
  lower_first,              // Paddle, normalisations: the first argument is cast down, others stay

  as_made,        // Paddle's static graph: as the last argument produced by an op, else lowered
  as_first_made,  // the same for normalisations: the first argument decides; only it is lowered
};
inline constexpr int op_class_count = static_cast<int>(OpClass::as_first_made) + 1;
const char* name_of(OpClass op_class);

// Another method to multiply by certain weights, such as fp8's, active with a policy. Each `linear`
// calls it once, before the policy's class for that op applies.
class LinearMethod {
 public:
  virtual ~LinearMethod() = default;
  // Returns x weight^T + bias, recorded on the tape; undefined if this method does not handle the
  // weight.
  virtual Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) = 0;
  // Returns the same method for weights that stay as they are, without gradients and for any number
  // of threads; null: there is none.
  virtual std::shared_ptr<LinearMethod> for_inference() const { return nullptr; }
};

struct OpPolicy {
  DeviceType device = DeviceType::cpu;
  DType lower = DType::bf16;
  std::array<OpClass, op_count> classes = {};
  bool cache_casts = true;     // one cast per leaf and region; Paddle has none
  bool casts_doubles = false;  // Apex casts f64 like other floating dtypes, torch does not
  bool bias_apart = false;     // Paddle: a convolution's bias is added by a separate op
  bool rounds_gradients = false;  // of weights, to the lower dtype as in torch: see gradient_dtype
  bool asks_who_made = false;     // some ops have the classes as_made or as_first_made
  const char* name = "";          // for messages
  LinearMethod* linear_method = nullptr;  // not owned; null: none
  std::vector<Tensor> f32_only = {};      // an op with one of these, uncast, runs in f32
  std::function<void(Op, DType)> on_cast = {};  // called for each conversion of an argument
  const OpPolicy* in_guard = nullptr;  // active inside an FP16Guard; null: no other policy there

  OpClass operator[](Op op) const { return classes[static_cast<int>(op)]; }
  void set(Op op, OpClass op_class) { classes[static_cast<int>(op)] = op_class; }
};

// Makes `policy` (null: none) the calling thread's policy until the scope ends. The end of the
// outermost scope clears the cached casts.
class PolicyScope {
 public:
  explicit PolicyScope(const OpPolicy* policy);
  ~PolicyScope();
  PolicyScope(const PolicyScope&) = delete;
  PolicyScope& operator=(const PolicyScope&) = delete;

 private:
  const OpPolicy* before_;
};
const OpPolicy* current_policy();

// Casts the arguments, in the given handles, as the policy requires for the op; skips undefined
// tensors. Throws for a banned op, and for dtypes that cannot be widened.
void cast_arguments(const OpPolicy& policy, Op op, std::span<Tensor* const> arguments);
// Does the same for the active policy; notifies the observer, if there is one.
void apply_policy_slow(const OpPolicy* policy, Op op, std::span<Tensor* const> arguments);
inline void apply_policy(Op op, std::initializer_list<Tensor*> arguments) {
  const OpPolicy* policy = current_policy();
  const OpObserver* observer = op_observer.load(std::memory_order_acquire);
  if ((policy != nullptr) | (observer != nullptr)) [[unlikely]]
    apply_policy_slow(policy, op, {arguments.begin(), arguments.size()});
}
// Does the same for ops with any number of tensors.
void apply_policy(Op op, std::vector<Tensor>& arguments);

// Casts x; the gradient is cast back. Returns x itself if it already has that dtype. Within a
// region, casts of leaves under a policy with cache_casts are shared. The converted values are kept
// across regions until the leaf's version changes.
Tensor cast(const Tensor& x, DType dtype);

// --- User-defined functions under op policies, like torch's custom_fwd and custom_bwd. The forward
// may request a dtype. The backward runs under the same policy as the forward.
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
  // it casts the floating arguments (except f64) on the policy's device differentiably, and the
  // forward runs without a policy. Without a policy it casts nothing.
  explicit CustomForward(std::initializer_list<Tensor*> arguments,
                         std::optional<DType> cast_inputs = std::nullopt);
  // Returns the policy that backward must run under.
  PolicyMemory memory() const { return PolicyMemory(current_policy()); }

 private:
  PolicyScope scope_;
};

}  // namespace booster
