// Code shared by the row kernels: parameter rows in the compute type, and sums over rows that are
// bit-identical for any number of threads.
#pragma once

#include "kernels/launch/workspace.h"
#include "kernels/numbers/convert.h"
#include "kernels/walks/mean.h"

namespace booster::kernels::BOOSTER_VARIANT {

// Returns a row of n parameters as compute type C, or `absent` n times if the argument is absent.
template <class C>
const C* parameter_row(const View& row, int64_t n, C absent, Scratch& scratch) {
  C* buffer = row.data && row.dtype == DTypeOf<C>::value ? nullptr : scratch.get<C>(n);
  if (row.data) return read_row(row, 0, n, buffer);
  for (int64_t i = 0; i < n; ++i) buffer[i] = absent;
  return buffer;
}

// Loads one number of a contiguous tensor, such as a row's mean; `absent` if the argument is
// absent.
template <class C>
C load_scalar(const View& x, int64_t i, C absent = C(0)) {
  C value = absent;
  if (x.data) load_run(&value, x.as<const char>() + i * size_of(x.dtype), x.dtype, 1, 1);
  return value;
}
template <class C>
void store_scalar(const View& y, int64_t i, C value) {
  if (y.data) store_run(y.as<char>() + i * size_of(y.dtype), y.dtype, 1, &value, 1);
}

// Loads a mean. Its tensor is f64 if it keeps both numbers.
template <class C>
Mean<C> load_mean(const View& means, int64_t i) {
  return Mean<C>(load_scalar<double>(means, i));
}

// Writes n values if the output is wanted.
template <class C>
void write_optional(const View& y, int64_t n, const C* values) {
  if (y.data) store_run(y.data, y.dtype, 1, values, n);
}

// Calls body(begin, end, sums), which adds to sums[0 .. width), for blocks of rows; returns the
// totals, which are in `scratch`. A block has at least 64 rows, more if rows are short.
template <class C, class Body>
const C* sum_over_rows(int64_t rows, int64_t width, Scratch& scratch, Body&& body) {
  const int64_t grain = grain_for(width) > 64 ? grain_for(width) : 64;
  const int64_t blocks = rows > 0 ? (rows + grain - 1) / grain : 1;
  C* partial = scratch.get<C>(blocks * width);
  for_each_block(blocks, [&](int64_t block) {
    C* sums = partial + block * width;
    for (int64_t i = 0; i < width; ++i) sums[i] = C(0);
    const int64_t begin = block * grain;
    body(begin, begin + grain < rows ? begin + grain : rows, sums);
  });
  for_each_range(width, grain_for(blocks), [&](int64_t begin, int64_t end) {
    for (int64_t block = 1; block < blocks; ++block) {
      const C* sums = partial + block * width;
#pragma omp simd
      for (int64_t i = begin; i < end; ++i) partial[i] += sums[i];
    }
  });
  return partial;
}

}  // namespace booster::kernels::BOOSTER_VARIANT
