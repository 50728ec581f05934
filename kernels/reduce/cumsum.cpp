// Prefix sums. They are summed in double (or int64_t) and rounded once, so that devices may sum in
// another order.
#include "kernels/walks/rows.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

constexpr int64_t run = 256;  // elements converted at once

// (outer, extent, inner) around the dimension, walked forwards or backwards.
struct Walk {
  View y, x;
  int64_t extent, inner;
  bool reverse;

  int64_t place(int64_t i) const { return reverse ? extent - 1 - i : i; }
  // inner = 1: sums along a dense line, in runs.
  template <class C>
  void sum_line(int64_t line) const {
    C values[run], sum = 0;
    for (int64_t at = 0; at < extent; at += run) {
      const int64_t n = at + run < extent ? run : extent - at;
      const int64_t first = line * extent + (reverse ? extent - at - n : at);
      load_run(values, x.as<const char>() + first * size_of(x.dtype), x.dtype, 1, n);
      for (int64_t i = 0; i < n; ++i) {
        C& value = values[reverse ? n - 1 - i : i];
        value = sum += value;
      }
      store_run(y.as<char>() + first * size_of(y.dtype), y.dtype, 1, values, n);
    }
  }
  // Sums n adjacent lines, the first at `column` of slice o.
  template <class C>
  void sum_lines(int64_t o, int64_t column, int64_t n) const {
    C values[run], sums[run] = {};
    for (int64_t i = 0; i < extent; ++i) {
      const int64_t first = (o * extent + place(i)) * inner + column;
      load_run(values, x.as<const char>() + first * size_of(x.dtype), x.dtype, 1, n);
      for (int64_t k = 0; k < n; ++k) sums[k] += values[k];
      store_run(y.as<char>() + first * size_of(y.dtype), y.dtype, 1, sums, n);
    }
  }
};

template <class C>
void sum_all(const Walk& walk, int64_t outer) {
  if (walk.inner == 1) {
    for_each_range(outer, grain_for(walk.extent), [&](int64_t begin, int64_t end) {
      for (int64_t line = begin; line < end; ++line) walk.sum_line<C>(line);
    });
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
