// Kernels that walk many tensors in one call. All tensors together are cut into chunks of a fixed
// size, so hundreds of small ones cost one parallel loop, and sums are added in chunk order: the
// same bits for any number of threads. Each number is read once and written once.
#include "kernels/multi_tensor.h"

#include "kernels/optimizer_math.h"
#include "kernels/row_sums.h"
#include "kernels/rows.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

constexpr int64_t chunk_size = 16384;  // elements
constexpr int64_t run_size = 1024;     // elements converted at once: a buffer stays in the L1 cache

// A part of one tensor.
struct Part {
  int64_t tensor, begin, end;
};

// The cut of `count` tensors into chunks; sizes are size_of(0), size_of(1), ...
class Chunks {
 public:
  template <class SizeOf>
  Chunks(int64_t count, SizeOf&& size_of) : tensors_(count), ends_(table.get<int64_t>(count + 1)) {
    int64_t end = 0;
    for (int64_t i = 0; i < count; ++i) {
      end += (size_of(i) + chunk_size - 1) / chunk_size;
      ends_[i] = end;
    }
    count_ = end;
  }
  int64_t count() const { return count_; }

  // The tensor of a chunk (the first whose end lies beyond it) and where in it.
  Part find(int64_t chunk, const auto& size_of) const {
    int64_t low = 0, high = tensors_ - 1;
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (ends_[middle] > chunk)
        high = middle;
      else
        low = middle + 1;
    }
    const int64_t begin = (chunk - first_of(low)) * chunk_size;
    const int64_t size = size_of(low);
    return {low, begin, begin + chunk_size < size ? begin + chunk_size : size};
  }
  // Chunks [first_of(i), end_of(i)) belong to tensor i.
  int64_t first_of(int64_t tensor) const { return tensor > 0 ? ends_[tensor - 1] : 0; }
  int64_t end_of(int64_t tensor) const { return ends_[tensor]; }

 private:
  static thread_local Scratch table;
  int64_t tensors_, count_ = 0;
  int64_t* ends_;
};
thread_local Scratch Chunks::table;
thread_local Scratch partial_sums;

// Calls f with a typed null pointer that stands for a floating dtype.
template <class F>
KERNEL_FN void visit_floating(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f64: return f(static_cast<double*>(nullptr));
    case DType::f16: return f(static_cast<f16*>(nullptr));
    case DType::bf16: return f(static_cast<bf16*>(nullptr));
    default: return f(static_cast<float*>(nullptr));
  }
}

// Calls body(chunk index, typed pointer, n) for every chunk of the tensors, in parallel.
template <class Body>
int64_t for_each_span(const MultiTensor& tensors, Body&& body) {
  const auto size_of = [&](int64_t i) { return tensors.spans[i].size; };
  const Chunks chunks(tensors.count, size_of);
  for_each_block(chunks.count(), [&](int64_t chunk) {
    const Part part = chunks.find(chunk, size_of);
    const TensorSpan& span = tensors.spans[part.tensor];
    visit_floating(span.dtype, [&](auto* type) {
      body(chunk, static_cast<decltype(type)>(span.data) + part.begin, part.end - part.begin);
    });
  });
  return chunks.count();
}

int64_t chunk_count(const MultiTensor& tensors) {
  int64_t count = 0;
  for (int64_t i = 0; i < tensors.count; ++i)
    count += (tensors.spans[i].size + chunk_size - 1) / chunk_size;
  return count;
}

// The magnitude bits of a float: as integers they order like the magnitudes, with inf and nan on
// top.
KERNEL_FN uint32_t magnitude_bits(float x) { return float_to_bits(x) & 0x7FFFFFFF; }
KERNEL_FN uint64_t magnitude_bits(double x) {
  return __builtin_bit_cast(uint64_t, x) & 0x7FFFFFFFFFFFFFFF;
}
KERNEL_FN bool is_finite_bits(uint32_t magnitude) { return magnitude < 0x7F800000; }
KERNEL_FN bool is_finite_bits(uint64_t magnitude) { return magnitude < 0x7FF0000000000000; }

// True if all of x is finite, before and after being multiplied by `factor` and rounded to T; a
// product with a non-finite number never is finite, so the products tell both. The check alone
// leaves x as it is.
template <bool check_only, class C, class T>
bool unscale_run(T* x, int64_t n, C factor) {
  using Bits = decltype(magnitude_bits(C()));
  const Bits largest = reduce_run<Bits>(
      n, Bits(0),
      [=](int64_t i) {
        if constexpr (!check_only) store(x + i, load<C>(x + i) * factor);
        return magnitude_bits(load<C>(x + i));
      },
      [](Bits a, Bits b) { return b > a ? b : a; });
  return is_finite_bits(largest);
}

template <class T>
struct ComputeType {
  using type = float;
};
template <>
struct ComputeType<double> {
  using type = double;
};
template <class T>
using ComputeOf = typename ComputeType<T>::type;

// Sum of |x|^power, or the largest |x| for power = inf (nan wins), in f64.
template <class T>
double norm_term(const T* x, int64_t n, double power) {
  using C = ComputeOf<T>;
  const auto magnitude = [=](int64_t i) { return __builtin_fabs(double(load<C>(x + i))); };
  if (power == 2) return sum_of<double>(n, [=](int64_t i) { return magnitude(i) * magnitude(i); });
  if (power == 1) return sum_of<double>(n, magnitude);
  if (power == __builtin_inf())
    return reduce_run<double>(n, 0.0, magnitude, [](double a, double b) { return maximum_(a, b); });
  double sum = 0;
  for (int64_t i = 0; i < n; ++i) sum += ::pow(magnitude(i), power);
  return sum;
}

double root_of(double sum, double power) {
  if (power == 2) return __builtin_sqrt(sum);
  return power == 1 || power == __builtin_inf() ? sum : ::pow(sum, 1 / power);
}

// The gradient's run as compute type C: in place where it has that type, else converted.
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
// Stores what was computed outside of its place, and the working copy.
template <class C>
void write_value(const OptimizerSlot& slot, int64_t at, int64_t n, const C* p) {
  if (slot.value_dtype != DTypeOf<C>::value) {
    char* value = static_cast<char*>(slot.value) + at * size_of(slot.value_dtype);
    store_run(value, slot.value_dtype, 1, p, n);
  }
  if (slot.copy) {
    char* copy = static_cast<char*>(slot.copy) + at * size_of(slot.copy_dtype);
    store_run(copy, slot.copy_dtype, 1, p, n);
  }
}

// Calls body(slot, chunk index, part, typed null of the compute type) for every chunk.
template <class Body>
void for_each_part(const Chunks& chunks, const OptimizerSlots& slots, Body&& body) {
  for_each_block(chunks.count(), [&](int64_t chunk) {
    const Part part = chunks.find(chunk, [&](int64_t i) { return slots.slots[i].size; });
    const OptimizerSlot& slot = slots.slots[part.tensor];
    visit_compute(slot.value_dtype, [&](auto* type) { body(slot, chunk, part, type); });
  });
}

// Calls body(at, n) for runs of a part.
template <class Body>
KERNEL_FN void for_each_run(const Part& part, Body&& body) {
  for (int64_t at = part.begin; at < part.end; at += run_size)
    body(at, at + run_size < part.end ? run_size : part.end - at);
}

// One pass over a part: value, gradient and `states` state tensors in; value, states, copy out.
template <int states, class C, class Rule>
void step_part(const OptimizerSlot& slot, const Part& part, GradientFactor<C> factor, Rule rule) {
  alignas(64) C value_buffer[run_size], grad_buffer[run_size];
  for_each_run(part, [&](int64_t at, int64_t n) {
    const C* g = read_grad(slot, at, n, grad_buffer);
    C* p = read_value(slot, at, n, value_buffer);
    C* m = static_cast<C*>(slot.state1) + at;
    C* v = static_cast<C*>(slot.state2) + at;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (states == 0) rule(p[i], factor(g[i]));
      if constexpr (states == 1) rule(p[i], factor(g[i]), m[i]);
      if constexpr (states == 2) rule(p[i], factor(g[i]), m[i], v[i]);
    }
    write_value(slot, at, n, p);
  });
}

// LAMB's first phase: moments, and the squared norms of value and update.
template <class C>
void lamb_moments(const OptimizerSlot& slot, const Part& part, GradientFactor<C> factor,
                  const LambRule<C> rule, double* squares) {
  alignas(64) C value_buffer[run_size], grad_buffer[run_size], update[run_size];
  for_each_run(part, [&](int64_t at, int64_t n) {
    const C* g = read_grad(slot, at, n, grad_buffer);
    const C* p = read_value(slot, at, n, value_buffer);
    C* m = static_cast<C*>(slot.state1) + at;
    C* v = static_cast<C*>(slot.state2) + at;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      rule.moments.blend(factor(g[i]) / rule.divisor, m[i], v[i]);
      update[i] = rule.update(p[i], m[i], v[i]);
    }
    const auto square = [](C x) { return double(x) * double(x); };
    squares[0] += sum_of<double>(n, [&](int64_t i) { return square(rule.kept * p[i]); });
    squares[1] += sum_of<double>(n, [&](int64_t i) { return square(update[i]); });
  });
}

// LAMB's second phase: value = kept * value - lr * ratio * update.
template <class C>
void lamb_apply(const OptimizerSlot& slot, const Part& part, const LambRule<C> rule, C rate) {
  alignas(64) C value_buffer[run_size];
  for_each_run(part, [&](int64_t at, int64_t n) {
    C* p = read_value(slot, at, n, value_buffer);
    const C* m = static_cast<const C*>(slot.state1) + at;
    const C* v = static_cast<const C*>(slot.state2) + at;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) p[i] = rule.kept * p[i] - rate * rule.update(p[i], m[i], v[i]);
    write_value(slot, at, n, p);
  });
}

Chunks chunks_of(const OptimizerSlots& slots) {
  return Chunks(slots.count, [&](int64_t i) { return slots.slots[i].size; });
}
bool must_skip(const StepControl& control) { return control.found_inf && *control.found_inf != 0; }

}  // namespace

void multi_unscale(MultiTensor grads, const float* inverse_scale, float* found_inf) {
  const float factor = inverse_scale ? *inverse_scale : 1.0f;
  for_each_span(grads, [&](int64_t, auto* x, int64_t n) {
    using C = ComputeOf<__typeof__(*x)>;
    const bool finite =
        factor == 1 ? unscale_run<true, C>(x, n, C(1)) : unscale_run<false, C>(x, n, C(factor));
    if (!finite)
      __atomic_store_n(reinterpret_cast<uint32_t*>(found_inf), 0x3F800000u, __ATOMIC_RELAXED);
  });
}

void multi_norm(MultiTensor grads, double power, double* norm) {
  double* terms = partial_sums.get<double>(chunk_count(grads) + 1);
  const int64_t chunks = for_each_span(
      grads, [&](int64_t chunk, auto* x, int64_t n) { terms[chunk] = norm_term(x, n, power); });
  double total = 0;
  for (int64_t i = 0; i < chunks; ++i)
    total = power == __builtin_inf() ? maximum_(total, terms[i]) : total + terms[i];
  *norm = root_of(total, power);
}

void multi_scale(MultiTensor grads, const float* factor) {
  for_each_span(grads, [&](int64_t, auto* x, int64_t n) {
    using C = ComputeOf<__typeof__(*x)>;
    const C by = C(*factor);
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) store(x + i, load<C>(x + i) * by);
  });
}

void multi_clamp(MultiTensor grads, double limit) {
  for_each_span(grads, [&](int64_t, auto* x, int64_t n) {
    using C = ComputeOf<__typeof__(*x)>;
    const C high = C(limit), low = -high;
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) {
      const C value = load<C>(x + i);
      store(x + i, value > high ? high : (value < low ? low : value));
    }
  });
}

void sgd_step(OptimizerSlots slots, SgdStep step, StepControl control) {
  if (must_skip(control)) return;
  for_each_part(chunks_of(slots), slots,
                [&](const OptimizerSlot& slot, int64_t, Part part, auto* type) {
                  using C = __typeof__(*type + 0);
                  const GradientFactor<C> factor(control, step.maximize);
                  if (step.momentum == 0)
                    step_part<0>(slot, part, factor, SgdRule<C>(step));
                  else
                    step_part<1>(slot, part, factor, MomentumRule<C>(step, slot.first));
                });
}

void adam_step(OptimizerSlots slots, AdamStep step, StepControl control) {
  if (must_skip(control)) return;
  for_each_part(chunks_of(slots), slots,
                [&](const OptimizerSlot& slot, int64_t, Part part, auto* type) {
                  using C = __typeof__(*type + 0);
                  const GradientFactor<C> factor(control, step.maximize);
                  step_part<2>(slot, part, factor, AdamRule<C>(step, slot.step));
                });
}

void lamb_step(OptimizerSlots slots, LambStep step, StepControl control) {
  if (must_skip(control)) return;
  const Chunks chunks = chunks_of(slots);
  double* squares = partial_sums.get<double>(2 * chunks.count() + 1);
  const double divisor = lamb_divisor(step, control);
  for_each_part(chunks, slots,
                [&](const OptimizerSlot& slot, int64_t chunk, Part part, auto* type) {
                  using C = __typeof__(*type + 0);
                  const GradientFactor<C> factor(control, false);
                  squares[2 * chunk] = squares[2 * chunk + 1] = 0;
                  lamb_moments(slot, part, factor, LambRule<C>(step, C(divisor), slot.step),
                               squares + 2 * chunk);
                });
  // Each tensor's sums, added in chunk order into those of its first chunk.
  for (int64_t i = 0; i < slots.count; ++i) {
    const int64_t first = chunks.first_of(i);
    for (int64_t chunk = first + 1; chunk < chunks.end_of(i); ++chunk) {
      squares[2 * first] += squares[2 * chunk];
      squares[2 * first + 1] += squares[2 * chunk + 1];
    }
  }
  for_each_part(chunks, slots, [&](const OptimizerSlot& slot, int64_t, Part part, auto* type) {
    using C = __typeof__(*type + 0);
    const LambRule<C> rule(step, C(divisor), slot.step);
    const double* sums = squares + 2 * chunks.first_of(part.tensor);
    const C ratio = rule.trust_ratio(__builtin_sqrt(sums[0]), __builtin_sqrt(sums[1]));
    lamb_apply(slot, part, rule, rule.lr * ratio);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
