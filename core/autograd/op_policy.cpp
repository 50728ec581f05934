#include "core/autograd/op_policy.h"

#include "core/autograd/tracking.h"

#include <algorithm>
#include <bit>

namespace booster {
namespace {

constexpr const char* op_names[op_count] = {
#define OP(name) #name,
#include "core/autograd/op_names.def"
#define UNARY(name, ...) #name,
#define BINARY(name, ...) #name,
#include "kernels/elementwise.def"
};

// A cast of a leaf made in this region: every use shares it, so its gradients add up in 16 bits.
struct RegionCast {
  Tensor source;
  uint32_t version;
  Tensor result;
};

thread_local const OpPolicy* policy_now = nullptr;
thread_local int policy_depth = 0;
thread_local std::vector<RegionCast> region_casts;

CastCopy& copy_slot(TapeState& state, DType dtype) {
  return state.cast_copies[dtype == DType::bf16 ? 1 : 0];
}

// The leaf's numbers in a 16-bit dtype, converted only if they changed since the last time.
Tensor leaf_values_as(const Tensor& leaf, DType dtype) {
  CastCopy& copy = copy_slot(ensure_tape_state(leaf), dtype);
  if (!copy.values.defined() || copy.version != leaf.version()) {
    copy.values = untracked::cast(leaf.detach(), dtype);
    set_memory_tag(copy.values, MemoryTag::copies);
    copy.version = leaf.version();
  }
  return copy.values.detach();
}

Tensor record_cast(const Tensor& x, Tensor y) {
  return record(std::move(y), "cast", {x}, [dtype = x.dtype()](const Tensor& g, Gradients& d) {
    d[0] = untracked::cast(g, dtype);
  });
}

bool may_cache(const OpPolicy& policy, const Tensor& x, DType dtype) {
  return policy.cache_casts && dtype == policy.lower && is_16_bit(dtype) &&
         x.dtype() == DType::f32 && x.requires_grad() && x.is_leaf();
}

// Always recorded with gradients enabled: a first use under no_grad must not rob a later one.
Tensor region_cast(const Tensor& x, DType dtype) {
  for (const RegionCast& cast : region_casts)
    if (cast.source.same_body(x) && cast.version == x.version() && cast.result.dtype() == dtype)
      return cast.result;
  const GradMode recorded(true);
  Tensor y = record_cast(x, leaf_values_as(x, dtype));
  region_casts.push_back({x, x.version(), y});
  return y;
}

bool takes_part(const OpPolicy& policy, const Tensor& x) {
  return x.defined() && is_floating(x.dtype()) &&
         (x.dtype() != DType::f64 || policy.casts_doubles) && x.device().type == policy.device;
}

// Folds from the left as torch does: starts at the lower dtype, one f32 makes it f32, and a 16-bit
// dtype that is neither is an error unless f32 came first.
DType widest_dtype(const OpPolicy& policy, Op op, std::span<Tensor* const> arguments) {
  DType widest = policy.lower;
  for (const Tensor* x : arguments) {
    if (!takes_part(policy, *x) || widest == DType::f32) continue;
    check(x->dtype() == DType::f32 || x->dtype() == policy.lower,
          "{}: cannot be widened under policy {}; got {} in a {} region, want {} or f32",
          name_of(op), policy.name, name_of(x->dtype()), name_of(policy.lower),
          name_of(policy.lower));
    widest = x->dtype();
  }
  return widest;
}

void cast_all(const OpPolicy& policy, std::span<Tensor* const> arguments, DType dtype) {
  for (Tensor* x : arguments)
    if (takes_part(policy, *x)) *x = cast(*x, dtype);
}

bool any_is(const OpPolicy& policy, std::span<Tensor* const> arguments, DType dtype) {
  return std::any_of(arguments.begin(), arguments.end(), [&](const Tensor* x) {
    return takes_part(policy, *x) && x->dtype() == dtype;
  });
}

// The floating dtypes among the arguments, each once, as bits.
unsigned dtypes_among(const OpPolicy& policy, std::span<Tensor* const> arguments) {
  unsigned set = 0;
  for (const Tensor* x : arguments)
    if (takes_part(policy, *x)) set |= 1u << static_cast<int>(x->dtype());
  return set;
}

void widen_pair(const OpPolicy& policy, Op op, std::span<Tensor* const> arguments) {
  const unsigned set = dtypes_among(policy, arguments);
  const unsigned f32 = 1u << static_cast<int>(DType::f32);
  if (set == (f32 | 1u << static_cast<int>(policy.lower)))
    return cast_all(policy, arguments, DType::f32);
  check(std::popcount(set) <= 1 || policy[op] == OpClass::widen_list,
        "{}: cannot be widened under policy {}; want one floating dtype, or {} and f32",
        name_of(op), policy.name, name_of(policy.lower));
}

// Towards the lower dtype only the first argument: a normalisation keeps its parameters.
void cast_first_or_up(const OpPolicy& policy, std::span<Tensor* const> arguments) {
  const auto first = arguments.first(1);
  if (any_is(policy, first, DType::f32))
    cast_all(policy, arguments, DType::f32);
  else
    cast_all(policy, first, policy.lower);
}

[[noreturn]] void refuse(const OpPolicy& policy, Op op) {
  fail("{}: not safe under policy {}: its gradient overflows in {}; use "
       "binary_cross_entropy_with_logits, or turn the policy off for this call",
       name_of(op), policy.name, name_of(policy.lower));
}

}  // namespace

const char* name_of(OpClass op_class) {
  static constexpr const char* names[op_class_count] = {
      "untouched",    "lower_precision",   "fp32",
      "fp32_result",  "widest",            "banned",
      "banned_lower", "widen_pair",        "widen_list",
      "lower_unless_fp32", "lower_unless_first_fp32", "lower_first"};
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
  policy_now = policy;
  ++policy_depth;
}

PolicyScope::~PolicyScope() {
  policy_now = before_;
  if (--policy_depth == 0) region_casts.clear();
}

void apply_policy_slow(const OpPolicy& policy, Op op, std::span<Tensor* const> arguments) {
  switch (policy[op]) {
    case OpClass::untouched:
    case OpClass::fp32_result: return;
    case OpClass::lower_precision: return cast_all(policy, arguments, policy.lower);
    case OpClass::fp32: return cast_all(policy, arguments, DType::f32);
    case OpClass::widest: return cast_all(policy, arguments, widest_dtype(policy, op, arguments));
    case OpClass::banned: refuse(policy, op);
    case OpClass::banned_lower:
      if (any_is(policy, arguments, policy.lower)) refuse(policy, op);
      return;
    case OpClass::widen_pair:
    case OpClass::widen_list: return widen_pair(policy, op, arguments);
    case OpClass::lower_unless_fp32:
      return cast_all(policy, arguments,
                      any_is(policy, arguments, DType::f32) ? DType::f32 : policy.lower);
    case OpClass::lower_unless_first_fp32: return cast_first_or_up(policy, arguments);
    case OpClass::lower_first: return cast_all(policy, arguments.first(1), policy.lower);
  }
}

void apply_policy(Op op, std::vector<Tensor>& arguments) {
  if (!policy_now) return;
  std::vector<Tensor*> handles;
  for (Tensor& argument : arguments) handles.push_back(&argument);
  apply_policy_slow(*policy_now, op, handles);
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
  if (policy_now && may_cache(*policy_now, x, dtype)) return region_cast(x, dtype);
  return record_cast(x, untracked::cast(x, dtype));
}

Tensor cast_copy(const Tensor& leaf, DType dtype) {
  TapeState* state = tape_state(leaf);
  return state && is_16_bit(dtype) ? copy_slot(*state, dtype).values : Tensor();
}

void mark_cast_copy_current(const Tensor& leaf, DType dtype) {
  CastCopy& copy = copy_slot(ensure_tape_state(leaf), dtype);
  copy.version = leaf.version();
  copy.values.bump_version();
}

}  // namespace booster
