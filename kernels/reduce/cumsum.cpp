// Prefix sums, in double (or int64_t) and rounded once, so that devices may sum in another order.
#include "kernels/walks/rows.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

constexpr int64_t run = 256;        // elements converted at once
constexpr int64_t short_line = 64;  // of a run's lines
constexpr int at_once = 4;          // lines

// (outer, extent, inner) around the dimension, walked forwards or backwards.
struct Walk {
  View y, x;
  int64_t extent, inner;
  bool reverse;

  int64_t place(int64_t i) const { return reverse ? extent - 1 - i : i; }
  template <class C>
  void load(C* values, int64_t first, int64_t n) const {
    load_run(values, x.as<const char>() + first * size_of(x.dtype), x.dtype, 1, n);
  }
  template <class C>
  void store(int64_t first, const C* values, int64_t n) const {
    store_run(y.as<char>() + first * size_of(y.dtype), y.dtype, 1, values, n);
  }
  // Sums along dense lines (inner = 1), several at a time, since each sum waits for the previous
  // one.
  template <class C>
  void sum_dense_lines(int64_t begin, int64_t end) const {
    if (extent <= short_line) return sum_short_lines<C>(begin, end);
    for (; begin + at_once <= end; begin += at_once) sum_long_lines<C, at_once>(begin);
    for (; begin < end; ++begin) sum_long_lines<C, 1>(begin);
  }
  template <class C>
  void sum_short_lines(int64_t begin, int64_t end) const {
    C values[run];
    const int64_t lines_of_run = run / extent;
    for (int64_t line = begin; line < end; line += lines_of_run) {
      const int64_t lines = end - line < lines_of_run ? end - line : lines_of_run;
      load(values, line * extent, lines * extent);
      int64_t k = 0;
      for (; k + at_once <= lines; k += at_once) {
        C sums[at_once] = {};
        sum_run<C, at_once>(values + k * extent, extent, extent, sums);
      }
      for (; k < lines; ++k) {
        C sum[1] = {};
        sum_run<C, 1>(values + k * extent, extent, extent, sum);
      }
      store(line * extent, values, lines * extent);
    }
  }
  template <class C, int lines>
  void sum_long_lines(int64_t line) const {
    C values[lines * run], sums[lines] = {};
    for (int64_t at = 0; at < extent; at += run) {
      const int64_t n = at + run < extent ? run : extent - at;
      const int64_t first = line * extent + (reverse ? extent - at - n : at);
      for (int k = 0; k < lines; ++k) load(values + k * run, first + k * extent, n);
      sum_run<C, lines>(values, run, n, sums);
      for (int k = 0; k < lines; ++k) store(first + k * extent, values + k * run, n);
    }
  }
  // Continues the sums of lines that are `distance` apart.
  template <class C, int lines>
  void sum_run(C* values, int64_t distance, int64_t n, C (&sums)[lines]) const {
    C now[lines];  // may stay in registers
    for (int k = 0; k < lines; ++k) now[k] = sums[k];
    const int64_t step = reverse ? -1 : 1;
    C* value = values + (reverse ? n - 1 : 0);
    for (int64_t i = 0; i < n; ++i, value += step)
      for (int k = 0; k < lines; ++k) value[k * distance] = now[k] += value[k * distance];
    for (int k = 0; k < lines; ++k) sums[k] = now[k];
  }
  // Sums n adjacent lines, the first at `column` of slice o.
  template <class C>
  void sum_lines(int64_t o, int64_t column, int64_t n) const {
    C values[run], sums[run] = {};
    for (int64_t i = 0; i < extent; ++i) {
      const int64_t first = (o * extent + place(i)) * inner + column;
      load(values, first, n);
      for (int64_t k = 0; k < n; ++k) sums[k] += values[k];
      store(first, sums, n);
    }
  }
};

template <class C>
void sum_all(const Walk& walk, int64_t outer) {
  if (walk.inner == 1) {
    for_each_range(outer, grain_for(walk.extent),
                   [&](int64_t begin, int64_t end) { walk.sum_dense_lines<C>(begin, end); });
    return;
  }
  const int64_t runs = (walk.inner + run - 1) / run;
  for_each_range(outer * runs, grain_for(walk.extent * run), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t column = i % runs * run, left = walk.inner - column;
      walk.sum_lines<C>(i / runs, column, left < run ? left : run);
    }
  });
}

}  // namespace

void cumsum(View y, View x, int dim, bool reverse) {
  if (x.size() == 0) return;
  Walk walk = {y, x, x.ndim ? x.shape[dim] : 1, 1, reverse};
  for (int i = dim + 1; i < x.ndim; ++i) walk.inner *= x.shape[i];
  const int64_t outer = x.size() / (walk.extent * walk.inner);
  if (is_floating(x.dtype))
    sum_all<double>(walk, outer);
  else
    sum_all<int64_t>(walk, outer);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
