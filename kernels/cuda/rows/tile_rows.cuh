// A matrix by tiles: a block has 256 columns of a stretch of rows, and each of its warps every
// eighth row. If all packs are in the row at aligned addresses, a warp handles several rows at a
// time, so that their loads are in flight together. Otherwise it handles one.
#pragma once

#include "kernels/cuda/rows/packed.cuh"

namespace booster::kernels::BOOSTER_VARIANT {

inline constexpr int warps_of_tile = threads_per_block / warp_size;
inline constexpr int tile_columns = warp_size * pack_size;

// Number of rows that a warp handles at a time: `wanted`, or one for f64, whose functions need many
// registers.
template <class C, int wanted>
inline constexpr int rows_at_once = sizeof(C) == 4 ? wanted : 1;

using TileShare = Share<1, pack_size>;

// Rows first, first + 8, ... of a warp, `count` of them. A thread's elements are packs; for a
// single row, they need not be.
template <int most, bool are_packs>
struct RowBatch {
  int64_t first;
  int count;
  __device__ int64_t row(int i) const { return first + i * warps_of_tile; }
};
// A thread's elements of them.
template <class C, int most>
using RowPacks = C[most][pack_size];

// Returns true if a thread's shares of all of a warp's rows are packs of up to 4 bytes per element.
// The rows are eight apart, so packs may begin in all of them or in none.
template <class... Operands>
__device__ bool are_packs(const TileShare& share, int64_t first_element, const Operands&... of) {
  static_assert(warps_of_tile % pack_size == 0);
  const int64_t first = first_element + share.first;
  return share.has_all(0) && ((of.dtype != DType::f64 && of.allows_packs(first)) && ...);
}

// The rows of a tile that belong to one warp.
struct TileRows {
  int64_t first, end;

  // Calls body(RowBatch<most, true>) or body(RowBatch<1, false>).
  template <int most, class Body>
  __device__ void for_each_batch(bool are_packs, Body&& body) const {
    if (are_packs) {
      for (int64_t row = first; row < end; row += most * warps_of_tile) {
        const int64_t left = (end - row + warps_of_tile - 1) / warps_of_tile;
        body(RowBatch<most, true>{row, left < most ? static_cast<int>(left) : most});
      }
    } else {
      for (int64_t row = first; row < end; row += warps_of_tile) body(RowBatch<1, false>{row, 1});
    }
  }
};

// Calls f with a typed null pointer that represents a floating dtype of up to 4 bytes.
template <class F>
__device__ void visit_narrow(DType dtype, F&& f) {
  switch (dtype) {
    case DType::f16: return f(static_cast<f16*>(nullptr));
    case DType::bf16: return f(static_cast<bf16*>(nullptr));
    default: return f(static_cast<float*>(nullptr));
  }
}

// Sets to[i] = a thread's share of the i-th row of x (rows, columns); 0 if there is none.
template <class C, int most, bool are_packs>
__device__ void load_rows(RowPacks<C, most>& to, const Operand& x, int64_t columns,
                          const TileShare& share, const RowBatch<most, are_packs>& batch) {
  if constexpr (!are_packs) {
    load_share(to[0], x, batch.first * columns, share, C(0));
  } else {
#pragma unroll
    for (int i = 0; i < most; ++i)
#pragma unroll
      for (int e = 0; e < pack_size; ++e) to[i][e] = 0;
    visit_narrow(x.dtype, [&]<class T>(T*) {
      const T* p = static_cast<const T*>(x.data) + batch.first * columns + share.first;
      Pack<T, pack_size> packed[most];
#pragma unroll
      for (int i = 0; i < most; ++i)
        if (i < batch.count) packed[i].load(p + i * warps_of_tile * columns);
#pragma unroll
      for (int i = 0; i < most; ++i)
        if (i < batch.count) packed[i].unpack(to[i]);
    });
  }
}

// Stores rows: the inverse of load_rows.
template <class C, int most, bool are_packs>
__device__ void store_rows(const Operand& y, int64_t columns, const TileShare& share,
                           const RowBatch<most, are_packs>& batch, const RowPacks<C, most>& from) {
  if constexpr (!are_packs) {
    store_share(y, batch.first * columns, share, from[0]);
  } else {
    visit_narrow(y.dtype, [&]<class T>(T*) {
      T* p = static_cast<T*>(y.data) + batch.first * columns + share.first;
#pragma unroll
      for (int i = 0; i < most; ++i) {
        if (i >= batch.count) continue;
        Pack<T, pack_size> packed;
        packed.pack(from[i]);
        packed.store(p + i * warps_of_tile * columns);
      }
    });
  }
}

}  // namespace booster::kernels::BOOSTER_VARIANT
