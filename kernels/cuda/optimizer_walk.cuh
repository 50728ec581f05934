// How a block of GPU threads walks a part of a parameter: one element per thread and turn,
// converted to the compute type as it is read.
#pragma once

#include "kernels/chunks.h"
#include "kernels/convert.h"
#include "kernels/optimizer/optimizer_math.h"
#include "kernels/rows/row_sums.h"
#include "kernels/optimizer/update_rounding.h"

namespace booster::kernels::BOOSTER_VARIANT {

// What make() gives, worked out by one thread for its block: powers in f64 take a GPU long. All
// threads of the block call it, once.
template <class Value, class Make>
__device__ Value once_per_block(Make&& make) {
  static_assert(__is_trivially_copyable(Value));
  constexpr int count = (sizeof(Value) + 7) / 8;
  union Words {
    uint64_t word[count];
    Value value;
    __device__ Words() {}
  };
  SHARED(uint64_t, shared, count);
  Words own;
  if (first_lane()) {
    own.value = make();
    for (int i = 0; i < count; ++i) shared[i] = own.word[i];
  }
  __syncthreads();
  for (int i = 0; i < count; ++i) own.word[i] = shared[i];
  return own.value;
}

// Stores the new value of element i, rounded as the slot says.
template <class C>
__device__ void store_value(const OptimizerSlot& slot, int64_t i, C value) {
  bf16* stored = static_cast<bf16*>(slot.value) + i;
  switch (slot.rounding) {
    case UpdateRounding::nearest: return store_any<C>(slot.value, slot.value_dtype, i, value);
    case UpdateRounding::stochastic: {
      const uint64_t key = noise_key(slot.noise_seed, step_of(slot));
      *stored = round_stochastic(float(value), noise_bits(key, slot.begin + i));
      return;
    }
    case UpdateRounding::kahan: {
      bf16* compensation = static_cast<bf16*>(slot.compensation);
      add_compensated(*stored, float(value) - to_float(*stored), compensation[i]);
    }
  }
}

// Calls body(value, gradient, i) for the elements i of a part and stores the values that it leaves,
// in the working copy too. Without `needs_gradient` the gradient given is 0.
template <bool needs_gradient, class C, class Body>
__device__ void update_values(const OptimizerSlot& slot, const Part& part, Body&& body) {
  for_each_lane(part.size(), [&](int64_t lane) {
    const int64_t i = part.begin + lane;
    C value = load_any<C>(slot.value, slot.value_dtype, i);
    body(value, needs_gradient ? load_any<C>(slot.grad, slot.grad_dtype, i) : C(0), i);
    store_value(slot, i, value);
    if (slot.copy) store_any<C>(slot.copy, slot.copy_dtype, i, value);
  });
}

// LAMB's first phase: moments; the squared norms of value and update go to squares[0] and [1].
template <class C>
__device__ void update_moments(const OptimizerSlot& slot, const Part& part,
                               GradientFactor<C> factor, const LambUpdate<C> lamb,
                               double* squares) {
  C* m = static_cast<C*>(slot.state1);
  C* v = static_cast<C*>(slot.state2);
  const auto square = [](C x) { return double(x) * double(x); };
  double of_update = 0;
  const double of_value = sum_of<double>(part.size(), [&](int64_t lane) {
    const int64_t i = part.begin + lane;
    const C p = load_any<C>(slot.value, slot.value_dtype, i);
    lamb.moments.blend(factor(load_any<C>(slot.grad, slot.grad_dtype, i)) / lamb.divisor, m[i],
                       v[i]);
    of_update += square(lamb.update(p, m[i], v[i]));
    return square(lamb.kept * p);
  });
  const double all_of_update = fold_lanes(of_update, [](double a, double b) { return a + b; });
  if (!first_lane()) return;
  squares[0] = of_value;
  squares[1] = all_of_update;
}

}  // namespace booster::kernels::BOOSTER_VARIANT
