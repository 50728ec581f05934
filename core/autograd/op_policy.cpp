#include "core/autograd/op_policy.h"

#include "core/autograd/cast_plan.h"
#include "core/autograd/constant_casts.h"
#include "core/autograd/node.h"
#include "core/autograd/observer.h"
#include "core/autograd/policy_dtypes.h"
#include "core/autograd/tracking.h"
#include "kernels/host/recording.h"
#include "platform/trace.h"

#include <unordered_map>

namespace booster {
namespace {

constexpr const char* op_names[op_count] = {
#define OP(name) #name,
#include "core/autograd/op_names.def"
#define UNARY(name, ...) #name,
#define BINARY(name, ...) #name,
#include "kernels/elementwise.def"
};

// A cast of a leaf made in this region. Every use shares it, so its gradients are summed in the
// widest of their dtypes and then cast back. It keeps the source alive, so that no other tensor can
// reuse its identity.
struct RegionCast {
  Tensor source;
  uint32_t version;
  Tensor result;
};

// Key: identity of the source, and dtype of the cast. The entry is valid while its version equals
// the source's.
struct CastKey {
  const TensorBody* source;
  DType dtype;
  bool operator==(const CastKey&) const = default;
};
struct CastKeyHash {
  size_t operator()(const CastKey& key) const {
    return std::hash<const void*>()(key.source) ^ static_cast<size_t>(key.dtype);
  }
};

thread_local const OpPolicy* policy_now = nullptr;
thread_local int policy_depth = 0;
thread_local int region_recording = 0;  // recording_number() where the outermost region began
thread_local std::unordered_map<CastKey, RegionCast, CastKeyHash> region_casts;

CastCopy& copy_slot(TapeState& state, DType dtype) {
  return state.cast_copies[dtype == DType::bf16 ? 1 : 0];
}

// Returns the leaf's values in a 16-bit dtype, converted only if they changed since the last time.
// Recorded work converts them in each replay and does not share the copy, since other code cannot
// know when a replay has written it.
Tensor leaf_values_as(const Tensor& leaf, DType dtype) {
  if (kernels::is_recording()) return untracked::cast(leaf.detach(), dtype);
  CastCopy& copy = copy_slot(ensure_tape_state(leaf), dtype);
  if (!copy.values.defined() || copy.version != leaf.version()) {
    copy.values = untracked::cast(leaf.detach(), dtype);
    set_memory_tag(copy.values, MemoryTag::copies);
    copy.version = leaf.version();
  }
  return copy.values.detach();
}

// Records a cast. Paddle's static graph ignores casts when it looks for the op that produced an
// argument.
Tensor record_cast(const Tensor& x, Tensor y) {
  const Tensor result = record(
      std::move(y), "cast", {x},
      only_cast([dtype = x.dtype()](const Tensor& g, Gradients& d) { d[0] = cast(g, dtype); }));
  if (results_are_marked) [[unlikely]] mark_made_by_op(result, false);
  return result;
}

bool may_cache(const OpPolicy& policy, const Tensor& x, DType dtype) {
  return policy.cache_casts && dtype == policy.lower && is_16_bit(dtype) &&
         x.dtype() == DType::f32 && x.requires_grad() && x.is_leaf();
}

bool is_region_cast(const Tensor& x, DType dtype) {
  const auto found = region_casts.find({x.body(), dtype});
  return found != region_casts.end() && found->second.version == x.version();
}

// Casts a leaf, always recorded with gradients enabled: a first use under no_grad must not deprive
// a later use of its gradient. A checkpoint therefore notes the leaf here; otherwise its gradient
// would count as complete only at the end of the pass.
Tensor region_cast(const Tensor& x, DType dtype) {
  if (region_recording != kernels::recording_number())
    fail(
        "autocast: a region began before the capture and continues in it; got a cast of {}, want "
        "the region within the captured work",
        x.shape());
  if (LeafWatch* watch = LeafWatch::current()) [[unlikely]]
    watch->note({&x, 1});
  RegionCast& cast = region_casts[{x.body(), dtype}];
  if (cast.result.defined() && cast.version == x.version()) return cast.result;
  const GradMode recorded(true);
  cast = {x, x.version(), record_cast(x, leaf_values_as(x, dtype))};
  return cast.result;
}

bool takes_part(const OpPolicy& policy, const Tensor& x) {
  return x.defined() && is_floating(x.dtype()) &&
         (x.dtype() != DType::f64 || policy.casts_doubles) && x.device().type == policy.device;
}

ArgumentKind kind_of(const OpPolicy& policy, const Tensor& x) {
  if (!takes_part(policy, x)) return ArgumentKind::passes;
  if (x.dtype() == policy.lower) return ArgumentKind::lower;
  return x.dtype() == DType::f32 ? ArgumentKind::f32 : ArgumentKind::other;
}

bool one_dtype(const OpPolicy& policy, std::span<Tensor* const> arguments) {
  const Tensor* first = nullptr;
  for (const Tensor* x : arguments) {
    if (!takes_part(policy, *x)) continue;
    if (!first) first = x;
    if (x->dtype() != first->dtype()) return false;
  }
  return true;
}

void cast_all(const OpPolicy& policy, Op op, std::span<Tensor* const> arguments, DType dtype) {
  for (Tensor* x : arguments) {
    if (!takes_part(policy, *x) || x->dtype() == dtype) continue;
    if (policy.on_cast && !is_region_cast(*x, dtype)) policy.on_cast(op, dtype);
    *x = cast(*x, dtype);
  }
}

bool touches_f32_only(const OpPolicy& policy, std::span<Tensor* const> arguments) {
  for (const Tensor* x : arguments)
    for (const Tensor& kept : policy.f32_only)
      if (x->defined() && x->same_body(kept)) return true;
  return false;
}

bool copy_is_current(const Tensor& leaf, DType dtype) {
  const TapeState* state = tape_state(leaf);
  if (!state || !is_16_bit(dtype)) return false;
  const CastCopy& copy = state->cast_copies[dtype == DType::bf16 ? 1 : 0];
  return copy.values.defined() && copy.version == leaf.version();
}

Tensor cast_unseen(const Tensor& x, DType dtype) {
  if (ConstantCasts* constants = ConstantCasts::current()) [[unlikely]]
    return record_cast(x, constants->cast(x, dtype));
  if (policy_now && may_cache(*policy_now, x, dtype)) return region_cast(x, dtype);
  return record_cast(x, untracked::cast(x, dtype));
}

Tensor cast_seen(OpObserver& observer, const Tensor& x, DType dtype) {
  const bool kept = policy_now && may_cache(*policy_now, x, dtype) && copy_is_current(x, dtype);
  const int64_t begin = kernels::trace_clock();
  Tensor y = cast_unseen(x, dtype);
  observer.was_cast({x, y, kernels::trace_clock() - begin, !kept});
  return y;
}

void put_in_force(const OpPolicy* policy) {
  policy_now = policy;
  results_are_marked = policy && policy->asks_who_made;
}

[[noreturn]] void refuse_banned(const OpPolicy& policy, Op op) {
  fail("{}: not safe under policy {}: its gradient overflows in {}; use "
       "binary_cross_entropy_with_logits, or turn the policy off for this call",
       name_of(op), policy.name, name_of(policy.lower));
}

[[noreturn]] void refuse_mixed(const OpPolicy& policy, Op op, std::span<Tensor* const> arguments) {
  std::string got;
  for (const Tensor* x : arguments)
    if (takes_part(policy, *x)) got += (got.empty() ? "" : ", ") + std::string(name_of(x->dtype()));
  fail("{}: cannot be widened under policy {}; got {} in a {} region, want {} or f32", name_of(op),
       policy.name, got, name_of(policy.lower), name_of(policy.lower));
}

}  // namespace

const char* name_of(OpClass op_class) {
  static constexpr const char* names[op_class_count] = {
      "untouched",    "lower_precision",   "fp32",
      "fp32_result",  "widest",            "banned",
      "banned_lower", "widen_pair",        "widen_list",
      "lower_unless_fp32", "lower_unless_first_fp32", "lower_first",
      "as_made", "as_first_made"};
  return names[static_cast<int>(op_class)];
}

const char* name_of(Op op) { return op_names[static_cast<int>(op)]; }

Op op_named(const std::string& name) {
  std::vector<std::string> names(op_names, op_names + op_count);
  for (int i = 0; i < op_count; ++i)
    if (names[i] == name) return static_cast<Op>(i);
  fail("op: unknown name; got {}{}", name, legal_names(name, names));
}

const OpPolicy* current_policy() { return policy_now; }

PolicyScope::PolicyScope(const OpPolicy* policy) : before_(policy_now) {
  put_in_force(policy);
  if (policy_depth++ == 0) region_recording = kernels::recording_number();
}

PolicyScope::~PolicyScope() {
  put_in_force(before_);
  if (--policy_depth == 0) region_casts.clear();
}

void cast_arguments(const OpPolicy& policy, Op op, std::span<Tensor* const> arguments) {
  if (!policy.f32_only.empty() && touches_f32_only(policy, arguments))
    return cast_all(policy, op, arguments, DType::f32);
  const CastPlan plan = plan_casts(
      policy[op], arguments.size(), [&](size_t i) { return kind_of(policy, *arguments[i]); },
      [&] { return one_dtype(policy, arguments); },
      [&](size_t i) { return was_made_by_op(*arguments[i]); });
  if (plan.objection == CastPlan::Objection::banned) refuse_banned(policy, op);
  if (plan.objection == CastPlan::Objection::mixed) refuse_mixed(policy, op, arguments);
  if (plan.which == CastPlan::Which::none) return;
  const bool all = plan.which == CastPlan::Which::all;
  cast_all(policy, op, all ? arguments : arguments.first(1),
           plan.to_f32 ? DType::f32 : policy.lower);
}

void apply_policy_slow(const OpPolicy* policy, Op op, std::span<Tensor* const> arguments) {
  OpObserver* observer = current_observer();
  if (!observer) {
    if (policy) cast_arguments(*policy, op, arguments);
    return;
  }
  std::vector<Tensor> given;
  for (const Tensor* argument : arguments) given.push_back(*argument);
  if (policy) cast_arguments(*policy, op, arguments);
  observer->op_called(op, policy, given, arguments);
}

void apply_policy(Op op, std::vector<Tensor>& arguments) {
  if (!policy_now && !current_observer()) return;
  std::vector<Tensor*> handles;
  for (Tensor& argument : arguments) handles.push_back(&argument);
  apply_policy_slow(policy_now, op, handles);
}

DType dtype_under_policy(Op op, Device device) {
  const OpPolicy* policy = policy_now;
  const bool lowers =
      policy && policy->device == device.type &&
      ((*policy)[op] == OpClass::lower_precision || (*policy)[op] == OpClass::lower_first);
  return lowers ? policy->lower : DType::f32;
}

bool wants_f32_result(Op op, const Tensor& argument) {
  const OpPolicy* policy = policy_now;
  return policy && takes_part(*policy, argument) && (*policy)[op] == OpClass::fp32_result;
}

Tensor cast(const Tensor& x, DType dtype) {
  check(x.defined(), "cast: tensor is undefined");
  if (x.dtype() == dtype) return x;
  if (OpObserver* observer = current_observer()) [[unlikely]]
    return cast_seen(*observer, x, dtype);
  return cast_unseen(x, dtype);
}

Tensor Tensor::cast_to(DType dtype) const { return cast(*this, dtype); }

Tensor cast_copy(const Tensor& leaf, DType dtype) {
  TapeState* state = tape_state(leaf);
  const bool has_copy = state && is_16_bit(dtype) && copy_slot(*state, dtype).values.defined();
  return has_copy ? leaf_values_as(leaf, dtype) : Tensor();
}

void mark_cast_copy_current(const Tensor& leaf, DType dtype) {
  CastCopy& copy = copy_slot(ensure_tape_state(leaf), dtype);
  copy.version = leaf.version();
  copy.values.bump_version();
}

void forget_cast_copies(const Tensor& leaf) {
  if (TapeState* state = tape_state(leaf))
    for (CastCopy& copy : state->cast_copies) copy = {};
}

}  // namespace booster
