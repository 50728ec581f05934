// Sums over the rows of a matrix, for gradients of parameters: by tiles, whose sums are then added.
// The partition of rows depends on the sizes only, so results are always the same.
#pragma once

#include "kernels/cuda/rows/tile_rows.cuh"
#include "kernels/launch/workspace.h"

namespace booster::kernels::BOOSTER_VARIANT {

// The partition of a matrix: at least 32 rows per stretch, four for each warp. It has no more tiles
// than keep a GPU busy, since adding the tiles' sums takes time.
struct Tiles {
  static constexpr int64_t least_rows = 32, most_tiles = 512;

  Tiles(int64_t rows_, int64_t columns_) : rows(rows_), columns(columns_) {
    across = (columns + tile_columns - 1) / tile_columns;
    const int64_t most = across < most_tiles ? most_tiles / (across > 0 ? across : 1) : 1;
    const int64_t useful = (rows + least_rows - 1) / least_rows;
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

// Adds the sums of the block's warps for column threadIdx.x of a tile.
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

// Sets parts[stretch][k][column] = the sum that body(share, rows, sum) adds to sum[k] for the rows
// of a stretch.
template <class C, int sums, class Body>
void add_rows(C* parts, Tiles tiles, Body body) {
  for_each_block<Body::blocks>(tiles.across * tiles.stretches, [=] ON_DEVICE(int64_t block) {
    const int64_t stretch = block / tiles.across, begin = block % tiles.across * tile_columns;
    const int64_t lane = threadIdx.x % warp_size, column = begin + threadIdx.x;
    C sum[sums][pack_size] = {};
    body(TileShare(begin + lane * pack_size, tiles.columns), tiles.rows_of(stretch), sum);
#pragma unroll
    for (int k = 0; k < sums; ++k) {
      const C total = sum_of_warps(sum[k]);
      if (column < tiles.columns) parts[(stretch * sums + k) * tiles.columns + column] = total;
    }
  });
}

// Destinations of sums over rows, with one element per column; absent ones are not wanted.
template <int sums>
struct SumOutputs {
  Operand out[sums];
  bool any() const {
    for (const Operand& each : out)
      if (each.data) return true;
    return false;
  }
};

// Sets out[k][column] = the sum over all parts of parts[part][k][column]. A warp's lanes are
// columns, and the block's warps share the parts.
template <class C, int sums>
void add_parts(const SumOutputs<sums>& to, const C* parts, int64_t count, int64_t columns) {
  const int64_t all = sums * columns;
  for_each_block((all + warp_size - 1) / warp_size, [=] ON_DEVICE(int64_t block) {
    SHARED(C, of_warps, threads_per_block);
    const int64_t at = block * warp_size + threadIdx.x % warp_size;
    C sum = 0;
    if (at < all)
#pragma unroll 8
      for (int64_t part = threadIdx.x / warp_size; part < count; part += warps_of_tile)
        sum += parts[part * all + at];
    of_warps[threadIdx.x] = sum;
    __syncthreads();
    if (threadIdx.x >= warp_size || at >= all) return;
    sum = 0;
    for (int warp = 0; warp < warps_of_tile; ++warp)
      sum += of_warps[warp * warp_size + threadIdx.x];
#pragma unroll
    for (int k = 0; k < sums; ++k)
      if (at / columns == k) store_one(to.out[k], at % columns, sum);
  });
}

// Adds the elements of a matrix.
template <class C>
struct AddElements {
  static constexpr int blocks = 2;
  Operand x;
  int64_t columns;
  __device__ void operator()(const TileShare& share, const TileRows& rows,
                             C (&sum)[1][pack_size]) const {
    const bool packs = are_packs(share, rows.first * columns, x);
    rows.for_each_batch<rows_at_once<C, 4>>(
        packs, [&]<int most, bool packed>(const RowBatch<most, packed>& batch) {
          RowPacks<C, most> value;
          load_rows<C>(value, x, columns, share, batch);
#pragma unroll
          for (int i = 0; i < most; ++i)
#pragma unroll
            for (int e = 0; e < pack_size; ++e) sum[0][e] += value[i][e];
        });
  }
};

// Sets out[k] = the sum that body adds to sum[k] for all rows. The body runs even if no sum is
// wanted.
template <class C, int sums, class Body>
void sum_over_rows(const SumOutputs<sums>& to, int64_t rows, int64_t columns, Body body) {
  const Tiles tiles(rows, columns);
  const Workspace<C> parts(tiles.stretches * sums * columns);
  add_rows<C, sums>(parts.data(), tiles, body);
  if (to.any()) add_parts<C, sums>(to, parts.data(), tiles.stretches, columns);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
