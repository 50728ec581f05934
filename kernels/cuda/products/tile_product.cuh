// Products of matrices given by functions, in tiles of the block's memory: for every dtype, layout
// and gather. Each sum runs over k in order for all sizes.
#pragma once

#include "kernels/numbers/convert.h"
#include "kernels/cuda/launch.cuh"

namespace booster::kernels::BOOSTER_VARIANT {

inline constexpr int tile_size = 64;   // rows and columns of the result per block
inline constexpr int tile_depth = 16;  // of k at a time
inline constexpr int tile_part = 4;    // rows and columns of the result per thread

// The direction in which neighbouring threads walk an operand, so that they read neighbouring
// memory.
enum class Along { depth, side };

template <class C>
struct TileOperands {
  C* left;   // [depth][row]
  C* right;  // [depth][column]
};

// Fills [depth][side] of an operand; `read(side, depth)` returns an element. Elements outside are
// 0.
template <class C, class Read>
__device__ void load_tile(C* tile, Along along, int64_t side, int64_t sides, int64_t depth,
                          int64_t depths, Read&& read) {
  for (int i = static_cast<int>(threadIdx.x); i < tile_size * tile_depth; i += threads_per_block) {
    const int s = along == Along::depth ? i / tile_depth : i % tile_size;
    const int d = along == Along::depth ? i % tile_depth : i / tile_size;
    const bool inside = side + s < sides && depth + d < depths;
    tile[d * tile_size + s] = inside ? read(side + s, depth + d) : C(0);
  }
}

template <class C>
__device__ void multiply_tile(C (&sum)[tile_part][tile_part], TileOperands<C> tile, int row,
                              int column) {
  for (int d = 0; d < tile_depth; ++d) {
    C left[tile_part], right[tile_part];
    for (int i = 0; i < tile_part; ++i) {
      left[i] = tile.left[d * tile_size + row + i];
      right[i] = tile.right[d * tile_size + column + i];
    }
    for (int i = 0; i < tile_part; ++i)
      for (int j = 0; j < tile_part; ++j) sum[i][j] += left[i] * right[j];
  }
}

struct ProductSizes {
  int64_t batches, rows, columns, depth;
  int64_t row_tiles() const { return (rows + tile_size - 1) / tile_size; }
  int64_t column_tiles() const { return (columns + tile_size - 1) / tile_size; }
};

// Calls store(batch, row, column, sum over k of left(batch, row, k) * right(batch, column, k)) for
// every element. The member `along` of `left` and `right` is their preferred direction.
template <class C, class Left, class Right, class Store>
void tile_product(const ProductSizes& size, Left left, Right right, Store store) {
  const int64_t row_tiles = size.row_tiles(), column_tiles = size.column_tiles();
  for_each_block(size.batches * row_tiles * column_tiles, [=] ON_DEVICE(int64_t block) {
    SHARED(C, left_tile, tile_size * tile_depth);
    SHARED(C, right_tile, tile_size * tile_depth);
    const int64_t column = block % column_tiles * tile_size;
    const int64_t row = block / column_tiles % row_tiles * tile_size;
    const int64_t batch = block / column_tiles / row_tiles;
    const int my_row = static_cast<int>(threadIdx.x) / (tile_size / tile_part) * tile_part;
    const int my_column = static_cast<int>(threadIdx.x) % (tile_size / tile_part) * tile_part;
    C sum[tile_part][tile_part] = {};
    for (int64_t k = 0; k < size.depth; k += tile_depth) {
      load_tile(left_tile, left.along, row, size.rows, k, size.depth,
                [&](int64_t i, int64_t d) { return left(batch, i, d); });
      load_tile(right_tile, right.along, column, size.columns, k, size.depth,
                [&](int64_t j, int64_t d) { return right(batch, j, d); });
      __syncthreads();
      multiply_tile(sum, TileOperands<C>{left_tile, right_tile}, my_row, my_column);
      __syncthreads();
    }
    // A variable index would keep the sums in local memory.
#pragma unroll
    for (int i = 0; i < tile_part; ++i)
#pragma unroll
      for (int j = 0; j < tile_part; ++j)
        if (row + my_row + i < size.rows && column + my_column + j < size.columns)
          store(batch, row + my_row + i, column + my_column + j, sum[i][j]);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
