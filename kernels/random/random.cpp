// Random numbers and dropout. Each block of four elements is one Philox call.
#include "kernels/numbers/random.h"

#include "kernels/catalogue.h"
#include "kernels/numbers/compute_type.h"
#include "kernels/numbers/convert.h"
#include "kernels/numbers/math.h"

#ifdef BOOSTER_ON_GPU
#include "kernels/cuda/element_group.cuh"
#else
#include "kernels/random/philox_vectors.h"
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

// Sets bits[i] = random word of element begin + i, up to the end of a block of four and perhaps
// further, but not beyond `run` words; begin is a multiple of 4.
void draw(uint32_t* bits, RandomPosition position, int64_t begin, int64_t n) {
  const uint64_t* origin = position.origin;
  const uint64_t key = origin ? origin[0] : position.key;
  const uint64_t first = position.offset + (origin ? origin[1] : 0) + uint64_t(begin) / 4;
  constexpr int64_t at_once = lanes<uint32_t>;
  static_assert(run % (4 * at_once) == 0);
  for (int64_t b = 0; 4 * b < n; b += at_once)
    philox_vectors(bits + 4 * b, key, first + uint64_t(b));
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

// Returns true if x is so close to the middle of two floats that a float whose error is below
// 9/16 of their distance may be either.
KERNEL_FN bool is_near_middle(double x) {
  constexpr int32_t spacing = 1 << 29;  // of floats, in spacings of doubles
  const auto place = int32_t(__builtin_bit_cast(int64_t, x) & (spacing - 1)) - spacing / 2;
  return (place < 0 ? -place : place) < spacing / 16;
}

// Sets cosine[j] = cosf(angle[j]) and sine[j] = sinf(angle[j]) for 0 <= angle <= 2 pi. The C
// library's results are part of what a seed means, and their errors are below 9/16 of the distance
// of two floats. So a loop that vectorises computes them in double, and the library is asked only
// where two floats are possible.
void turn(float* cosine, float* sine, const float* angle, int64_t n) {
  bool asks_cosine[run / 2], asks_sine[run / 2];
  for (int64_t j = 0; j < n; ++j) {
    const double x = double(angle[j]);
    const double shifted = x * 0.63661977236758134308 + 6755399441055744.0;
    const double k = shifted - 6755399441055744.0;  // the nearest integer
    const double r = (x - k * 1.57079632673412561417) - k * 6.07710050650619224932e-11;
    const double square = r * r;
    double s = 1.6059043836821613e-10;  // 1 / 13!, 1 / 11!, ...
    s = s * square - 2.5052108385441720e-08;
    s = s * square + 2.7557319223985893e-06;
    s = s * square - 1.9841269841269841e-04;
    s = s * square + 8.3333333333333332e-03;
    s = s * square - 1.6666666666666666e-01;
    s = r + r * square * s;
    double c = 2.0876756987868099e-09;  // 1 / 12!, 1 / 10!, ...
    c = c * square - 2.7557319223985888e-07;
    c = c * square + 2.4801587301587302e-05;
    c = c * square - 1.3888888888888889e-03;
    c = c * square + 4.1666666666666664e-02;
    c = 1.0 - (0.5 * square - square * square * c);
    const int64_t quarter = __builtin_bit_cast(int64_t, shifted);
    const double a = quarter & 1 ? s : c, b = quarter & 1 ? c : s;
    const double x_part = (quarter + 1) & 2 ? -a : a, y_part = quarter & 2 ? -b : b;
    cosine[j] = float(x_part);
    sine[j] = float(y_part);
    asks_cosine[j] = is_near_middle(x_part);
    asks_sine[j] = is_near_middle(y_part);
  }
  for (int64_t j = 0; j < n; ++j)
    if (asks_cosine[j]) cosine[j] = ::cosf(angle[j]);
  for (int64_t j = 0; j < n; ++j)
    if (asks_sine[j]) sine[j] = ::sinf(angle[j]);
}

// Computes the same numbers as the rule, by loops that vectorise.
void generate(const View& out, RandomPosition position, Normal rule) {
  for_each_range(out.size(), run, [&](int64_t begin, int64_t end) {
    alignas(64) uint32_t bits[run];
    alignas(64) float radius[run / 2], angle[run / 2], cosine[run / 2], sine[run / 2], values[run];
    const int64_t n = end - begin, pairs = (n + 1) / 2;
    draw(bits, position, begin, n);
    if (n % 2 == 1) bits[n] = bits[n - 1] * 2654435761u;
    for (int64_t j = 0; j < pairs; ++j) {
      radius[j] = sqrt_(-2.0f * log_(1.0f - unit_float(bits[2 * j])));
      angle[j] = 6.2831853f * unit_float(bits[2 * j + 1]);
    }
    turn(cosine, sine, angle, pairs);
    for (int64_t j = 0; j < pairs; ++j) {
      values[2 * j] = rule.centre + rule.scale * radius[j] * cosine[j];
      values[2 * j + 1] = rule.centre + rule.scale * radius[j] * sine[j];
    }
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
