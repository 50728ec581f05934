// Random numbers and dropout. Each block of four elements is one Philox call.
#include "kernels/numbers/random.h"

#include "kernels/catalogue.h"
#include "kernels/numbers/compute_type.h"
#include "kernels/numbers/convert.h"
#include "kernels/numbers/math.h"

#ifdef BOOSTER_ON_GPU
#include "kernels/cuda/element_group.cuh"
#endif

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

// Distributions: compute element i of a run from the run's n random words. A run begins at a
// multiple of four.
template <class C>
struct Uniform {
  C from, span;
  C least, most;  // bounds after rounding the sum and converting to the result's dtype
  KERNEL_FN C operator()(const uint32_t* bits, int64_t i, int64_t) const {
    const C x = from + span * C(unit_float(bits[i]));
    return x > most ? most : (x < least ? least : x);
  }
};

// Box-Muller: elements 2j and 2j+1 share a radius; one has the cosine, the other the sine.
struct Normal {
  float centre, scale;
  KERNEL_FN float operator()(const uint32_t* bits, int64_t i, int64_t n) const {
    const int64_t even = i & ~int64_t(1);
    const uint32_t angle_bits = even + 1 < n ? bits[even + 1] : bits[even] * 2654435761u;
    const float radius = sqrt_(-2.0f * log_(1.0f - unit_float(bits[even])));
    const float angle = 6.2831853f * unit_float(angle_bits);
    return centre + scale * radius * (i == even ? ::cosf(angle) : ::sinf(angle));
  }
};

template <class C>
struct Drop {
  uint32_t threshold;
  C scale;
  bool everything;
  KERNEL_FN C operator()(uint32_t bits, C x) const {
    const C kept = x * scale;
    return bits >= threshold && !everything ? kept : C(0);
  }
};

#ifdef BOOSTER_ON_GPU

// Calls body(words, begin, n) for every block of four elements (the last may be shorter), one
// thread per block.
template <class Body>
void for_each_four(int64_t size, RandomPosition position, Body body) {
  for_each_item((size + 3) / 4, [=] ON_DEVICE(int64_t four) {
    const Philox numbers = random_block(position, uint64_t(four));
    const int64_t begin = quad * four, rest = size - begin;
    body(numbers.word, begin, rest < quad ? static_cast<int>(rest) : quad);
  });
}

template <class Rule>
void generate(const View& out, RandomPosition position, Rule rule) {
  for_each_four(out.size(), position, [=] ON_DEVICE(const uint32_t* bits, int64_t begin, int n) {
    decltype(rule(bits, 0, n)) value[quad] = {};
#pragma unroll
    for (int i = 0; i < quad; ++i)
      if (i < n) value[i] = rule(bits, i, n);
    store_group(out.data, out.dtype, {begin, n}, value);
  });
}

template <class C>
void drop(const View& y, const View& x, Drop<C> rule, RandomPosition position) {
  for_each_four(x.size(), position, [=] ON_DEVICE(const uint32_t* bits, int64_t begin, int n) {
    C value[quad] = {};
    load_group(value, x.data, x.dtype, {begin, n});
#pragma unroll
    for (int i = 0; i < quad; ++i) value[i] = rule(bits[i], value[i]);
    store_group(y.data, y.dtype, {begin, n}, value);
  });
}

#else

constexpr int64_t run = 512;

// Sets bits[i] = random word of element begin + i, up to the end of a block of four; begin is a
// multiple of 4.
void draw(uint32_t* bits, RandomPosition position, int64_t begin, int64_t n) {
  const uint64_t first = uint64_t(begin) / 4;
  const int64_t blocks = (n + 3) / 4;
  uint32_t words[4][run / 4];
  for (int64_t b = 0; b < blocks; ++b) {
    const Philox four = random_block(position, first + uint64_t(b));
    for (int k = 0; k < 4; ++k) words[k][b] = four.word[k];
  }
  for (int64_t b = 0; b < blocks; ++b)
    for (int k = 0; k < 4; ++k) bits[4 * b + k] = words[k][b];
}

template <class Rule>
void generate(const View& out, RandomPosition position, Rule rule) {
  for_each_range(out.size(), run, [&](int64_t begin, int64_t end) {
    alignas(64) uint32_t bits[run];
    alignas(64) decltype(rule(bits, 0, 0)) values[run];
    const int64_t n = end - begin;
    draw(bits, position, begin, n);
    for (int64_t i = 0; i < n; ++i) values[i] = rule(bits, i, n);
    store_run(out.as<char>() + begin * size_of(out.dtype), out.dtype, 1, values, n);
  });
}

// Computes the same numbers as the rule by loops that vectorise, except for sines and cosines: the
// C library's are part of what a seed means.
void generate(const View& out, RandomPosition position, Normal rule) {
  for_each_range(out.size(), run, [&](int64_t begin, int64_t end) {
    alignas(64) uint32_t bits[run];
    alignas(64) float radius[run / 2], angle[run / 2], turn[run], values[run];
    const int64_t n = end - begin, pairs = (n + 1) / 2;
    draw(bits, position, begin, n);
    if (n % 2 == 1) bits[n] = bits[n - 1] * 2654435761u;
    for (int64_t j = 0; j < pairs; ++j) {
      radius[j] = sqrt_(-2.0f * log_(1.0f - unit_float(bits[2 * j])));
      angle[j] = 6.2831853f * unit_float(bits[2 * j + 1]);
    }
    for (int64_t j = 0; j < pairs; ++j) {
      turn[2 * j] = ::cosf(angle[j]);
      turn[2 * j + 1] = ::sinf(angle[j]);
    }
    for (int64_t i = 0; i < 2 * pairs; ++i)
      values[i] = rule.centre + rule.scale * radius[i / 2] * turn[i];
    store_run(out.as<char>() + begin * size_of(out.dtype), out.dtype, 1, values, n);
  });
}

template <class C>
void drop(const View& y, const View& x, Drop<C> rule, RandomPosition position) {
  for_each_range(x.size(), run, [&](int64_t begin, int64_t end) {
    alignas(64) uint32_t bits[run];
    alignas(64) C in[run], out[run];
    const int64_t n = end - begin;
    draw(bits, position, begin, n);
    const C* values = read_row(x, begin, n, in);
    C* target = row_target(y, begin, out);
    for (int64_t i = 0; i < n; ++i) target[i] = rule(bits[i], values[i]);
    write_row(y, begin, n, target);
  });
}

#endif

// An unsigned integer as wide as a number. The bits of positive numbers have the order of the
// numbers.
template <int bytes>
struct Word {
  using type = uint16_t;
};
template <>
struct Word<4> {
  using type = uint32_t;
};
template <>
struct Word<8> {
  using type = uint64_t;
};

// Returns the next number of type T below x.
template <class T>
T next_below(T x) {
  using Bits = typename Word<sizeof(T)>::type;
  const Bits bits = __builtin_bit_cast(Bits, x), sign = Bits(Bits(1) << (8 * sizeof(T) - 1));
  const bool is_zero = Bits(bits << 1) == 0;
  const Bits below = is_zero ? Bits(sign | 1) : Bits(bits & sign ? bits + 1 : bits - 1);
  return __builtin_bit_cast(T, below);
}

// Returns the largest number of type T that is at most `limit`, or below it if `is_below`.
template <class T>
double largest_up_to(double limit, bool is_below) {
  T x;
  store(&x, limit);
  const double nearest = load<double>(&x);
  if (nearest > limit || (is_below && nearest == limit)) x = next_below(x);
  return load<double>(&x);
}

}  // namespace

// Draws values in [low, high), even after rounding to the result's dtype; only low if that has no
// such number.
void uniform(View out, double low, double high, RandomPosition position) {
  visit_floating(out.dtype, [&]<class T>(T*) {
    using C = ComputeOf<T>;
    const double least = -largest_up_to<T>(-low, false), most = largest_up_to<T>(high, true);
    generate(out, position,
             Uniform<C>{C(low), C(high - low), C(least), C(most < least ? least : most)});
  });
}

void normal(View out, double mean, double std, RandomPosition position) {
  generate(out, position, Normal{float(mean), float(std)});
}

void dropout(View y, View x, double p, RandomPosition position) {
  visit_compute(x.dtype, [&]<class C>(C*) {
    drop(y, x, Drop<C>{drop_threshold(p), p < 1 ? C(1 / (1 - p)) : C(0), p >= 1}, position);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
