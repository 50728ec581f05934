// Sorts the elements of each row: one sort of all positions, by key within row. It sorts keys of 64
// bits first by their lower half, then by row and upper half.
#include "kernels/catalogue.h"
#include "kernels/cuda/index/sort.cuh"
#include "kernels/cuda/space.cuh"
#include "kernels/index/sort_key.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

constexpr uint64_t half = 0xFFFFFFFF;

void write_low_keys(const View& x, bool descending, int64_t* keys) {
  for_each_item(x.size(), [=] ON_DEVICE(int64_t i) {
    keys[i] = int64_t(sort_key_of(x.data, x.dtype, i, descending) & half);
  });
}

void write_row_keys(const View& x, bool descending, int64_t* keys) {
  const int64_t columns = x.columns();
  const int shift = key_bits(x.dtype) - 32;
  for_each_item(x.size(), [=] ON_DEVICE(int64_t i) {
    const uint64_t key = sort_key_of(x.data, x.dtype, i, descending) >> shift;
    keys[i] = quotient(i, columns) << 32 | int64_t(key & half);
  });
}

void sort_by_row(const View& index, const View& x, bool descending, const int64_t* start) {
  const int64_t n = x.size(), columns = x.columns();
  const Workspace<int64_t> keys(n);
  write_row_keys(x, descending, keys.data());
  const SortedPositions order(keys.data(), n, x.rows() << 32, start);
  const int64_t* positions = order.data();
  const int64_t wanted = index.columns();
  int64_t* to = index.as<int64_t>();
  for_each_item(index.size(), [=] ON_DEVICE(int64_t i) {
    const int64_t row = quotient(i, wanted);
    to[i] = positions[row * columns + i - row * wanted] - row * columns;
  });
}

}  // namespace

void sort_rows(View index, View x, bool descending) {
  const int64_t n = x.size();
  if (index.size() == 0) return;
  if (key_bits(x.dtype) == 32) return sort_by_row(index, x, descending, nullptr);
  const Workspace<int64_t> keys(n);
  write_low_keys(x, descending, keys.data());
  const SortedPositions order(keys.data(), n, int64_t(half) + 1);
  sort_by_row(index, x, descending, order.data());
}

}  // namespace booster::kernels::BOOSTER_VARIANT
