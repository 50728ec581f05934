// Walks a part of a parameter on the CPU, in runs that stay in the first-level cache. Runs of
// another dtype are converted to the compute type, so that the loops vectorise.
#pragma once

#include "kernels/optimizer/cpu_stream.h"
#include "kernels/optimizer/optimizer_math.h"
#include "kernels/optimizer/update_rounding.h"
#include "kernels/walks/chunks.h"
#include "kernels/walks/row_sums.h"

namespace booster::kernels::BOOSTER_VARIANT {

inline constexpr int64_t run_size = 512;  // elements converted at once
// Working copies from this size on have left the caches before the next forward pass reads them.
inline constexpr int64_t streamed_from = 1 << 20;

// Returns make(); a part is the work of one thread.
template <class Value, class Make>
Value once_per_block(Make&& make) {
  return make();
}

// Returns the gradient's run as compute type C: in place if it has that type, else converted.
template <class C>
const C* read_grad(const OptimizerSlot& slot, int64_t at, int64_t n, C* buffer) {
  const char* p = static_cast<const char*>(slot.grad) + at * size_of(slot.grad_dtype);
  if (slot.grad_dtype == DTypeOf<C>::value) return reinterpret_cast<const C*>(p);
  load_run(buffer, p, slot.grad_dtype, 1, n);
  return buffer;
}
template <class C>
C* read_value(const OptimizerSlot& slot, int64_t at, int64_t n, C* buffer) {
  char* p = static_cast<char*>(slot.value) + at * size_of(slot.value_dtype);
  if (slot.value_dtype == DTypeOf<C>::value) return reinterpret_cast<C*>(p);
  load_run(buffer, p, slot.value_dtype, 1, n);
  return buffer;
}
// Writes bf16 values with the slot's rounding; element numbers count from the parameter's first.
inline void write_rounded(const OptimizerSlot& slot, int64_t at, int64_t n, const float* p) {
  bf16* value = static_cast<bf16*>(slot.value) + at;
  if (slot.rounding == UpdateRounding::kahan) {
    bf16* c = static_cast<bf16*>(slot.compensation) + at;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) add_compensated(value[i], p[i] - to_float(value[i]), c[i]);
    return;
  }
  const uint64_t key = noise_key(slot.noise_seed, step_of(slot));
  const int64_t first = slot.begin + at;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) value[i] = round_stochastic(p[i], noise_bits(key, first + i));
}

template <class C>
void write_copy(const OptimizerSlot& slot, int64_t at, int64_t n, const C* p) {
  const int64_t width = size_of(slot.copy_dtype);
  char* copy = static_cast<char*>(slot.copy) + at * width;
  if (slot.size * width < streamed_from) return store_run(copy, slot.copy_dtype, 1, p, n);
  alignas(64) char run[run_size * sizeof(double)];
  store_run(run, slot.copy_dtype, 1, p, n);
  stream(copy, run, n * width);
}

// Stores values that were not computed in place, and the working copy.
template <class C>
void write_value(const OptimizerSlot& slot, int64_t at, int64_t n, const C* p) {
  if (slot.value_dtype != DTypeOf<C>::value) {
    if constexpr (sizeof(C) == sizeof(float))
      if (slot.rounding != UpdateRounding::nearest) return write_rounded(slot, at, n, p);
    char* value = static_cast<char*>(slot.value) + at * size_of(slot.value_dtype);
    store_run(value, slot.value_dtype, 1, p, n);
  }
  if (slot.copy) write_copy(slot, at, n, p);
}

// Calls body(at, n) for runs of a part.
template <class Body>
KERNEL_FN void for_each_run(const TensorPart& part, Body&& body) {
  for (int64_t at = part.begin; at < part.end; at += run_size)
    body(at, at + run_size < part.end ? run_size : part.end - at);
}

// Calls body(value, gradient, state1, state2, state3) for the elements of a part. Stores the
// resulting values, also in the working copy, and in a step the states. A missing state is 0.
//
// All states are read before one is written. Large tensors start at multiples of 2 MB, so the
// addresses of m[i] and v[i] have the same low 12 bits. A load just after a store to such an
// address waits for it (7 % of an AdamW step on Zen 4).
template <UpdatePass pass, int states, class C, class Body>
void update_values(const OptimizerSlot& slot, const TensorPart& part, Body&& body) {
  constexpr bool is_step = pass == UpdatePass::step;
  alignas(64) C value_buffer[run_size], grad_buffer[run_size];
  C* first = static_cast<C*>(slot.state1);
  C* second = static_cast<C*>(slot.state2);
  C* third = static_cast<C*>(slot.state3);
  for_each_run(part, [&](int64_t at, int64_t n) {
    const C* g = is_step ? read_grad(slot, at, n, grad_buffer) : nullptr;
    C* p = read_value(slot, at, n, value_buffer);
    if (g == grad_buffer) {
      const int64_t width = size_of(slot.grad_dtype);
      read_ahead(static_cast<const char*>(slot.grad) + (at + n) * width, run_size * width);
    }
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      C a = states > 0 ? first[at + i] : C(0), b = states > 1 ? second[at + i] : C(0),
        c = states > 2 ? third[at + i] : C(0);  // a structure would prevent vectorisation
      body(p[i], is_step ? g[i] : C(0), a, b, c);
      if (is_step && states > 0) first[at + i] = a;
      if (is_step && states > 1) second[at + i] = b;
      if (is_step && states > 2) third[at + i] = c;
    }
    write_value(slot, at, n, p);
  });
  if (slot.copy) end_of_streams();
}

// Computes LAMB's first phase: moments, and the squared norms of value and update in squares[0] and
// [1].
template <class C>
void update_moments(const OptimizerSlot& slot, const TensorPart& part, GradientFactor<C> factor,
                    const LambUpdate<C> lamb, double* squares) {
  alignas(64) C value_buffer[run_size], grad_buffer[run_size], update[run_size];
  squares[0] = squares[1] = 0;
  for_each_run(part, [&](int64_t at, int64_t n) {
    const C* g = read_grad(slot, at, n, grad_buffer);
    const C* p = read_value(slot, at, n, value_buffer);
    C* m = static_cast<C*>(slot.state1) + at;
    C* v = static_cast<C*>(slot.state2) + at;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      C next_m = m[i], next_v = v[i];  // read first, as in update_values
      lamb.moments.blend(factor(g[i]) / lamb.divisor, next_m, next_v);
      update[i] = lamb.update(p[i], next_m, next_v);
      m[i] = next_m;
      v[i] = next_v;
    }
    const auto square = [](C x) { return double(x) * double(x); };
    squares[0] += sum_of<double>(n, [&](int64_t i) { return square(lamb.kept * p[i]); });
    squares[1] += sum_of<double>(n, [&](int64_t i) { return square(update[i]); });
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
