// Sums over the rows of a matrix, for gradients of parameters. A block has a tile: 256 columns of a
// stretch of rows, each of its warps every eighth of them; the sums of the stretches are then added
// in the same way. How rows are cut depends on the sizes only, so results are always the same.
#pragma once

#include "kernels/cuda/rows/packed.cuh"
#include "kernels/workspace.h"

namespace booster::kernels::BOOSTER_VARIANT {

inline constexpr int warps_of_tile = threads_per_block / warp_size;
inline constexpr int tile_columns = warp_size * pack_size;

using TileShare = Share<1, pack_size>;

// The rows of a tile that one warp has.
struct TileRows {
  int64_t first, end;
  template <class Body>
  __device__ void for_each(Body&& body) const {
    for (int64_t row = first; row < end; row += warps_of_tile) body(row);
  }
};

// How a matrix is cut: at least 64 rows per stretch, and no more tiles than keep a GPU busy.
struct Tiles {
  Tiles(int64_t rows_, int64_t columns_) : rows(rows_), columns(columns_) {
    across = (columns + tile_columns - 1) / tile_columns;
    const int64_t most = across < 1024 ? 1024 / (across > 0 ? across : 1) : 1;
    const int64_t useful = (rows + 63) / 64;
    stretches = useful < most ? useful : most;
    if (stretches < 1) stretches = 1;
    rows_of_stretch = (rows + stretches - 1) / stretches;
  }
  __device__ TileRows rows_of(int64_t stretch) const {
    const int64_t begin = stretch * rows_of_stretch, end = begin + rows_of_stretch;
    return {begin + threadIdx.x / warp_size, end < rows ? end : rows};
  }
  int64_t rows, columns, across, stretches, rows_of_stretch;
};

// The block's warps add what they have of column threadIdx.x of a tile.
template <class C>
__device__ C sum_of_warps(const C (&mine)[pack_size]) {
  SHARED(C, all, warps_of_tile * tile_columns);
  __syncthreads();  // the last sums may still be read
#pragma unroll
  for (int i = 0; i < pack_size; ++i) all[threadIdx.x * pack_size + i] = mine[i];
  __syncthreads();
  C sum = 0;
  for (int warp = 0; warp < warps_of_tile; ++warp) sum += all[warp * tile_columns + threadIdx.x];
  return sum;
}

// totals[stretch][k][column] = what body(share, rows, sum) adds to sum[k] for the rows of a
// stretch.
template <class C, int sums, class Body>
void add_rows(C* totals, Tiles tiles, Body body) {
  for_each_block(tiles.across * tiles.stretches, [=] ON_DEVICE(int64_t block) {
    const int64_t stretch = block / tiles.across, begin = block % tiles.across * tile_columns;
    const int64_t lane = threadIdx.x % warp_size, column = begin + threadIdx.x;
    C sum[sums][pack_size] = {};
    body(TileShare(begin + lane * pack_size, tiles.columns), tiles.rows_of(stretch), sum);
#pragma unroll
    for (int k = 0; k < sums; ++k) {
      const C total = sum_of_warps(sum[k]);
      if (column < tiles.columns) totals[(stretch * sums + k) * tiles.columns + column] = total;
    }
  });
}

// Adds the elements of a matrix.
template <class C>
struct AddElements {
  Operand x;
  int64_t columns;
  __device__ void operator()(const TileShare& share, const TileRows& rows,
                             C (&sum)[1][pack_size]) const {
    rows.for_each([&](int64_t row) {
      C value[pack_size];
      load_share(value, x, row * columns, share, C(0));
#pragma unroll
      for (int i = 0; i < pack_size; ++i) sum[0][i] += value[i];
    });
  }
};

// totals[k][column] = what body adds to sum[k] for all rows.
template <class C, int sums, class Body>
void sum_over_rows(C* totals, int64_t rows, int64_t columns, Body body) {
  const Tiles tiles(rows, columns);
  if (tiles.stretches == 1) return add_rows<C, sums>(totals, tiles, body);
  const Workspace<C> partial(tiles.stretches * sums * columns);
  add_rows<C, sums>(partial.data(), tiles, body);
  Tiles rest(tiles.stretches, sums * columns);
  rest.stretches = 1;
  rest.rows_of_stretch = rest.rows;
  add_rows<C, 1>(totals, rest, AddElements<C>{operand(partial.data()), rest.columns});
}

// Writes n totals if the output is wanted.
template <class C>
void write_totals(Operand out, const C* totals, int64_t n) {
  if (!out.data) return;
  for_each_item(n, [=] ON_DEVICE(int64_t i) { store_one(out, i, totals[i]); });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
