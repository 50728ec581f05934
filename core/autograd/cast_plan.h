// The plan of a policy's casts of one op's arguments: the rules of the op classes, without tensors.
// op_policy.cpp executes plans; `booster explain` prints them.
#pragma once

#include "core/autograd/op_policy.h"

#include <algorithm>

namespace booster {

// Kinds of arguments, as policies distinguish them.
enum class ArgumentKind : uint8_t {
  passes,  // never cast: absent, integer, on another device, or f64 unless f64 is cast
  lower,   // of the policy's 16-bit dtype
  f32,
  other,  // another floating dtype that the policy casts
};

struct CastPlan {
  enum class Which : uint8_t { none, first, all };
  enum class Objection : uint8_t { none, banned, mixed };
  Which which = Which::none;
  bool to_f32 = false;  // else to the lower dtype
  Objection objection = Objection::none;
};

namespace cast_plan {

inline constexpr CastPlan lower_all = {CastPlan::Which::all, false, CastPlan::Objection::none};
inline constexpr CastPlan lower_first = {CastPlan::Which::first, false, CastPlan::Objection::none};
inline constexpr CastPlan f32_all = {CastPlan::Which::all, true, CastPlan::Objection::none};
inline constexpr CastPlan nothing = {};
inline constexpr CastPlan banned = {.objection = CastPlan::Objection::banned};
inline constexpr CastPlan mixed = {.objection = CastPlan::Objection::mixed};

template <class KindOf>
bool any(size_t count, const KindOf& kind_of, ArgumentKind kind) {
  for (size_t i = 0; i < count; ++i)
    if (kind_of(i) == kind) return true;
  return false;
}

// Plans torch's promote: goes from the left until an f32 decides.
template <class KindOf>
CastPlan fold(size_t count, const KindOf& kind_of) {
  for (size_t i = 0; i < count; ++i) {
    if (kind_of(i) == ArgumentKind::f32) return f32_all;
    if (kind_of(i) == ArgumentKind::other) return mixed;
  }
  return lower_all;
}

// Plans Apex's promote. `other` covers several dtypes; `one_dtype` is true if all are the same.
template <class KindOf>
CastPlan widen_pair(size_t count, const KindOf& kind_of, bool one_dtype, bool other_mixes_pass) {
  if (one_dtype) return nothing;
  if (any(count, kind_of, ArgumentKind::other)) return other_mixes_pass ? nothing : mixed;
  return f32_all;
}

// Returns the decision of Paddle's static graph: by the last argument that an op produced, if there
// is one.
template <class KindOf, class WasMade>
bool made_f32(size_t count, const KindOf& kind_of, const WasMade& was_made) {
  while (count-- > 0)
    if (kind_of(count) != ArgumentKind::passes && was_made(count))
      return kind_of(count) == ArgumentKind::f32;
  return false;
}

}  // namespace cast_plan

// Returns the plan for an op of a class with `count` arguments; kind_of(i) is the kind of argument
// i. `one_dtype`: all arguments that are not `passes` have the same dtype. `was_made(i)`: an op
// produced argument i.
template <class KindOf, class OneDtype, class WasMade>
CastPlan plan_casts(OpClass op_class, size_t count, const KindOf& kind_of,
                    const OneDtype& one_dtype, const WasMade& was_made) {
  using namespace cast_plan;
  switch (op_class) {
    case OpClass::untouched:
    case OpClass::fp32_result: return nothing;
    case OpClass::lower_precision: return lower_all;
    case OpClass::fp32: return f32_all;
    case OpClass::widest: return fold(count, kind_of);
    case OpClass::banned: return banned;
    case OpClass::banned_lower:
      return any(count, kind_of, ArgumentKind::lower) ? banned : nothing;
    case OpClass::widen_pair: return widen_pair(count, kind_of, one_dtype(), false);
    case OpClass::widen_list: return widen_pair(count, kind_of, one_dtype(), true);
    case OpClass::lower_unless_fp32:
      return any(count, kind_of, ArgumentKind::f32) ? f32_all : lower_all;
    case OpClass::lower_unless_first_fp32:
      return count > 0 && kind_of(0) == ArgumentKind::f32 ? f32_all : lower_first;
    case OpClass::lower_first: return lower_first;
    case OpClass::as_made: return made_f32(count, kind_of, was_made) ? f32_all : lower_all;
    case OpClass::as_first_made:
      return made_f32(std::min<size_t>(count, 1), kind_of, was_made) ? f32_all : lower_first;
  }
  return nothing;
}

}  // namespace booster
