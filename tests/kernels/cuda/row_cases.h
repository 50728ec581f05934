// Matrices for tests of row kernels: all numbers of columns at which the partition of rows changes,
// all dtypes, and random numbers of rows and start offsets.
#pragma once

#include "tests/kernels/cuda/compare.h"

namespace booster::kernels::test {

struct RowCase {
  int64_t rows, columns;
  int64_t offset;      // elements before the first row, which may make it misaligned
  DType dtype, other;  // of x; random: of results and of second operands
  DType parameters;    // f32 or x's dtype
  bool absent;         // omits the optional tensors
  uint32_t seed;

  // Return tensors with this many elements; elements before the first row are never written.
  Plain drawn(DType type, uint32_t number) const {
    return random(type, {offset + rows * columns}, seed + number);
  }
  Plain result(DType type) const { return unwritten(type, {offset + rows * columns}); }
  Plain parameter(uint32_t number) const { return random(parameters, {columns}, seed + number); }
  // Returns a tensor with one element per row: means, losses.
  Plain per_row() const { return unwritten(wide(dtype), {rows}); }
  // Returns the rows of such a tensor.
  View matrix(View flat) const {
    flat.data = static_cast<char*>(flat.data) + offset * size_of(flat.dtype);
    flat.ndim = 2;
    flat.shape[0] = rows;
    flat.shape[1] = columns;
    flat.strides[0] = columns;
    flat.strides[1] = 1;
    return flat;
  }
};

template <class Body>
void for_each_row_case(const std::vector<int64_t>& columns, Body&& body) {
  std::mt19937 generator(17);
  const auto draw = [&](uint32_t choices) { return static_cast<uint32_t>(generator() % choices); };
  const int64_t rows[] = {1, 2, 3, 9, 17, 0};
  for (const int64_t count : columns)
    for (const DType dtype : floating_dtypes) {
      const int64_t offset = draw(2) ? draw(9) : 0;
      RowCase one = {rows[draw(6)], count, offset,         dtype, floating_dtypes[draw(4)],
                     dtype,         false, draw(1'000'000)};
      if (dtype != DType::f64 && one.other == DType::f64) one.other = dtype;
      if (draw(2)) one.parameters = wide(dtype);
      one.absent = draw(3) == 0;
      INFO(one.rows << " rows of " << count << " " << name_of(dtype) << ", others of "
                    << std::string(name_of(one.other)) << " from element " << offset);
      body(one);
    }
}

inline const std::vector<int64_t> row_sizes = {0,   1,   2,   7,    31,   32,   33,
                                               255, 256, 257, 1000, 1024, 1025, 2500};
inline const std::vector<int64_t> long_rows = {5000, 8192, 8193, 20'001};

using Views = std::vector<View>;

}  // namespace booster::kernels::test
