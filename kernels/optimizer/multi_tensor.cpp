// Kernels over the gradients of many tensors in one call. They read and write each element once.
#include "kernels/arguments/multi_tensor.h"

#include "kernels/numbers/compute_type.h"
#include "kernels/numbers/math.h"
#include "kernels/walks/chunks.h"
#include "kernels/walks/runs.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

using Gradients = Cut<TensorSpan>;

// Calls body(typed pointer, n) for a chunk of the tensors.
template <class Body>
ON_DEVICE void visit_chunk(const Chunks<TensorSpan>& chunks, int64_t chunk, Body&& body) {
  const TensorPart part = chunks.find(chunk);
  const TensorSpan& span = chunks.items[part.tensor];
  visit_floating(span.dtype, [&](auto* type) {
    body(static_cast<decltype(type)>(span.data) + part.begin, part.size());
  });
}

// Returns the magnitude bits of a float, which as integers have the order of the magnitudes, with
// inf and nan on top.
KERNEL_FN uint32_t magnitude_bits(float x) { return float_to_bits(x) & 0x7FFFFFFF; }
KERNEL_FN uint64_t magnitude_bits(double x) {
  return __builtin_bit_cast(uint64_t, x) & 0x7FFFFFFFFFFFFFFF;
}
KERNEL_FN bool is_finite_bits(uint32_t magnitude) { return magnitude < 0x7F800000; }
KERNEL_FN bool is_finite_bits(uint64_t magnitude) { return magnitude < 0x7FF0000000000000; }

KERNEL_FN float from_magnitude(uint32_t bits) { return bits_to_float(bits); }
KERNEL_FN double from_magnitude(uint64_t bits) { return __builtin_bit_cast(double, bits); }

// Returns the largest magnitude of x in bits. With `writes` it first multiplies x by `factor` and
// rounds to T. A product with a non-finite number is never finite, so checking the products is
// enough.
template <bool writes, class C, class T>
ON_DEVICE auto largest_bits(T* x, int64_t n, C factor) {
  return largest_of_run<decltype(magnitude_bits(C())), writes>(x, n, [=](T& element) {
    if constexpr (writes) store(&element, load<C>(&element) * factor);
    return magnitude_bits(load<C>(&element));
  });
}

// Squares of halves are exact in f32 and far from its limits. Four are therefore added in f32 (an
// error of at most 2^-24) before one addition in f64. Adding each in f64 would cost more than
// reading them. The four are a quarter of `fours_run` elements apart, also on a GPU.
inline constexpr int64_t fours_run = 1024;

KERNEL_FN double sum_of_four(float a, float b, float c, float d) {
  return double(a * a + b * b + (c * c + d * d));
}

template <class T>
ON_DEVICE double sum_of_fours(const T* x, int64_t n) {
  const int64_t quarter = n / 4;
  const auto at = [=](int64_t i) { return load<float>(x + i); };
  const double fours = sum_of<double>(quarter, [=](int64_t i) {
    return sum_of_four(at(i), at(i + quarter), at(i + 2 * quarter), at(i + 3 * quarter));
  });
  return fours + sum_of<double>(n - 4 * quarter, [=](int64_t i) {
           const float last = at(4 * quarter + i);
           return double(last * last);
         });
}

#ifdef BOOSTER_ON_GPU

ON_DEVICE double sum_of_squares(const f16* x, int64_t n) {
  constexpr int size = PackedRun<f16>::size;
  constexpr int64_t quarter = fours_run / 4, packs = quarter / size;
  const int64_t runs = n / fours_run;
  const double in_runs = sum_of<double>(runs * packs, [=](int64_t k) {
    const int64_t first = k / packs * fours_run + k % packs * size;
    f16 part[4][size];
#pragma unroll
    for (int i = 0; i < 4; ++i) read_group(part[i], x, {first + i * quarter, size});
    double sum = 0;
#pragma unroll
    for (int i = 0; i < size; ++i)
      sum += sum_of_four(to_float(part[0][i]), to_float(part[1][i]), to_float(part[2][i]),
                         to_float(part[3][i]));
    return sum;
  });
  return in_runs + sum_of_fours(x + runs * fours_run, n - runs * fours_run);
}

#else

// Converts runs by the processor's instruction, which saves 3 of 38 ms in the step on ViT-B in f16.
double sum_of_squares(const f16* x, int64_t n) {
  alignas(64) float run[fours_run];
  double sum = 0;
  for (int64_t at = 0; at < n; at += fours_run) {
    const int64_t count = at + fours_run < n ? fours_run : n - at;
    load_dense(run, x + at, count);
    sum += sum_of_fours(run, count);
  }
  return sum;
}

#endif

template <class T>
ON_DEVICE double sum_of_squares(const T* x, int64_t n) {
  return sum_of_run(x, n, [](const T& element) {
    const double value = load<ComputeOf<T>>(&element);
    return value * value;
  });
}

// Returns the sum of |x|^power, or the largest |x| for power = inf (nan wins), in f64.
template <class T>
ON_DEVICE double norm_term(const T* x, int64_t n, double power) {
  const auto magnitude = [](const T& element) {
    return __builtin_fabs(double(load<ComputeOf<T>>(&element)));
  };
  if (power == 2) return sum_of_squares(x, n);
  if (power == 1) return sum_of_run(x, n, magnitude);
  if (power == __builtin_inf())
    return fold_run<double>(x, n, 0.0, magnitude,
                            [](double a, double b) { return maximum_(a, b); });
  return sum_of_run(x, n, [=](const T& element) { return ::pow(magnitude(element), power); });
}

KERNEL_FN double root_of(double sum, double power) {
  if (power == 2) return __builtin_sqrt(sum);
  return power == 1 || power == __builtin_inf() ? sum : ::pow(sum, 1 / power);
}

}  // namespace

void multi_unscale(MultiTensor grads, const float* inverse_scale, float* found_inf) {
  const Gradients cut(grads.spans, grads.count);
  for_each_block<chunks_at_once>(cut.count(), [=, chunks = cut.chunks()] ON_DEVICE(int64_t chunk) {
    const float factor = inverse_scale ? *inverse_scale : 1.0f;
    visit_chunk(chunks, chunk, [&]<class T>(T* x, int64_t n) {
      using C = ComputeOf<T>;
      const auto largest =
          factor == 1 ? largest_bits<false, C>(x, n, C(1)) : largest_bits<true, C>(x, n, C(factor));
      if (!is_finite_bits(largest) && first_lane()) store_flag(found_inf, 1.0f);
    });
  });
}

void multi_check(MultiTensor grads, const float* inverse_scale, float* found_inf) {
  const Gradients cut(grads.spans, grads.count);
  for_each_block<chunks_at_once>(cut.count(), [=, chunks = cut.chunks()] ON_DEVICE(int64_t chunk) {
    const float factor = inverse_scale ? *inverse_scale : 1.0f;
    visit_chunk(chunks, chunk, [&]<class T>(T* x, int64_t n) {
      using C = ComputeOf<T>;
      const auto largest = largest_bits<false, C>(x, n, C(1));
      const bool finite = is_finite_bits(largest) &&
                          is_finite_bits(magnitude_bits(from_magnitude(largest) * C(factor)));
      if (!finite && first_lane()) store_flag(found_inf, 1.0f);
    });
  });
}

void multi_norm(MultiTensor grads, double power, double* norm) {
  const Gradients cut(grads.spans, grads.count);
  const Workspace<double> partial(cut.count() + 1);
  double* terms = partial.data();
  for_each_block<chunks_at_once>(cut.count(), [=, chunks = cut.chunks()] ON_DEVICE(int64_t chunk) {
    visit_chunk(chunks, chunk, [&](auto* x, int64_t n) {
      const double term = norm_term(x, n, power);
      if (first_lane()) terms[chunk] = term;
    });
  });
  const int64_t count = cut.count();
  for_each_block(1, [=] ON_DEVICE(int64_t) {
    const double total =
        power == __builtin_inf() ? norm_term(terms, count, power) : norm_term(terms, count, 1);
    if (first_lane()) *norm = root_of(total, power);
  });
}

void multi_scale(MultiTensor grads, const double* factor) {
  const Gradients cut(grads.spans, grads.count);
  for_each_block<chunks_at_once>(cut.count(), [=, chunks = cut.chunks()] ON_DEVICE(int64_t chunk) {
    visit_chunk(chunks, chunk, [&]<class T>(T* x, int64_t n) {
      using C = ComputeOf<T>;
      const C by = C(*factor);
      change_run(x, n, [=](auto& element) { store(&element, load<C>(&element) * by); });
    });
  });
}

void multi_clamp(MultiTensor grads, double limit) {
  const Gradients cut(grads.spans, grads.count);
  for_each_block<chunks_at_once>(cut.count(), [=, chunks = cut.chunks()] ON_DEVICE(int64_t chunk) {
    visit_chunk(chunks, chunk, [&]<class T>(T* x, int64_t n) {
      using C = ComputeOf<T>;
      const C high = C(limit), low = -high;
      change_run(x, n, [=](auto& element) {
        const C value = load<C>(&element);
        store(&element, value > high ? high : (value < low ? low : value));
      });
    });
  });
}

void count_steps(MultiTensor counters, const float* found_inf) {
  const Gradients cut(counters.spans, counters.count);
  for_each_block(cut.count(), [=, chunks = cut.chunks()] ON_DEVICE(int64_t chunk) {
    if (found_inf && *found_inf != 0.0f) return;
    const TensorPart part = chunks.find(chunk);
    int64_t* counter = static_cast<int64_t*>(chunks.items[part.tensor].data) + part.begin;
    for_each_lane(part.size(), [=](int64_t i) { ++counter[i]; });
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
