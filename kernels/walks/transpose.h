// Transposes blocks of elements of 1, 2, 4 or 8 bytes, by interleaving vectors. For the CPU.
#pragma once

#include "kernels/launch/launch.h"

namespace booster::kernels::BOOSTER_VARIANT {

// Shuffles with constant lane numbers: LaneOrders<n> is LaneOrders<0, 0, 1, ... n - 1>.
template <int n, int... lane>
struct LaneOrders : LaneOrders<n - 1, n - 1, lane...> {};
template <int... lane>
struct LaneOrders<0, lane...> {
  static constexpr int n = sizeof...(lane);
  // Returns a[first], b[first], a[first + 1], b[first + 1] ...
  template <int first, class V>
  KERNEL_FN static V interleave(V a, V b) {
    return __builtin_shufflevector(a, b, (first + lane / 2 + lane % 2 * n)...);
  }
  template <int by, class V>
  KERNEL_FN static V rotate(V x) {
    return __builtin_shufflevector(x, x, ((lane + by) % n)...);
  }
};

// Transposes a square of n x n elements. Interleaving row i with row i + n/2 rotates every
// element's (row, column), as one binary number, by one bit. Doing so log2(n) times exchanges row
// and column.
template <class V, int n>
KERNEL_FN void transpose(V (&rows)[n]) {
  for (int stage = 1; stage < n; stage *= 2) {
    V next[n];
    for (int i = 0; i < n / 2; ++i) {
      next[2 * i] = LaneOrders<n>::template interleave<0>(rows[i], rows[i + n / 2]);
      next[2 * i + 1] = LaneOrders<n>::template interleave<n / 2>(rows[i], rows[i + n / 2]);
    }
    for (int i = 0; i < n; ++i) rows[i] = next[i];
  }
}

// Sides of the squares that registers transpose with few instructions.
constexpr int square_side(int bytes) {
#if defined(__AVX512F__)
  return bytes == 8 ? 8 : 16;
#elif defined(__AVX2__)
  return bytes == 8 ? 4 : (bytes == 1 ? 16 : 8);
#else
  return 16 / bytes;
#endif
}

template <class T>
struct SquareRow {
  static constexpr int n = square_side(sizeof(T));
  typedef T One __attribute__((may_alias));
  typedef T Row __attribute__((vector_size(n * sizeof(T)), may_alias));
  typedef T Anywhere __attribute__((vector_size(n * sizeof(T)), aligned(sizeof(T)), may_alias));
};

// Sets to[r * to_stride + i] = from[i * from_stride + r] for r < rows and i < n.
template <class T>
void transpose_block(T* to, int64_t to_stride, const T* from, int64_t from_stride, int64_t rows,
                     int64_t n) {
  constexpr int side = SquareRow<T>::n;
  using Row = typename SquareRow<T>::Row;
  using Anywhere = typename SquareRow<T>::Anywhere;
  const int64_t whole_rows = rows / side * side, whole_n = n / side * side;
  for (int64_t r = 0; r < whole_rows; r += side)
    for (int64_t i = 0; i < whole_n; i += side) {
      Row square[side];
      for (int k = 0; k < side; ++k)
        square[k] = *reinterpret_cast<const Anywhere*>(from + (i + k) * from_stride + r);
      transpose(square);
      for (int k = 0; k < side; ++k)
        *reinterpret_cast<Anywhere*>(to + (r + k) * to_stride + i) = square[k];
    }
  using One = typename SquareRow<T>::One;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t i = r < whole_rows ? whole_n : 0; i < n; ++i)
      *reinterpret_cast<One*>(to + r * to_stride + i) =
          *reinterpret_cast<const One*>(from + i * from_stride + r);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
