// Products on the matrix units of 64 x 64 (or 64 x 32) tiles of 16-bit numbers in the block's
// memory, by 4 warps with 16 of a tile's rows each. Sums and scores stay in a warp's fragments
// (kernels/cuda/ptx.cuh says which lane holds what).
#pragma once

#include "kernels/numbers/convert.h"
#include "kernels/cuda/fold.cuh"
#include "kernels/cuda/ptx.cuh"

namespace booster::kernels::BOOSTER_VARIANT::tiles {

inline constexpr int warps = 4, threads = warps * warp_size;
inline constexpr int rows_per_warp = 16, block_rows = warps * rows_per_warp;
inline constexpr int pack_size = 8;  // numbers in 16 bytes

__device__ inline int lane() { return static_cast<int>(threadIdx.x) % warp_size; }
// The first row of a tile that is the calling warp's.
__device__ inline int warp_row() {
  return static_cast<int>(threadIdx.x) / warp_size * rows_per_warp;
}
// Row and first column of a lane's numbers in a fragment of sums: element 0 and 1 are (lane_row,
// lane_column) and its neighbour, 2 and 3 are 8 rows below.
__device__ inline int lane_row() { return lane() / 4; }
__device__ inline int lane_column() { return lane() % 4 * 2; }

// A sum's fragments: 16 rows of `columns` numbers.
template <int columns>
using Sums = float[columns / 8][4];
// The same rounded to 16 bits, as the left operand of a product.
template <int columns>
using Left = uint32_t[columns / 16][4];

// One head of a tensor (batch, heads, tokens, features) with dense features.
template <class T>
struct Head {
  T* data;
  int64_t stride;  // of tokens
  int tokens, features;
  bool in_packs;  // each row's packs begin at a multiple of 16 bytes, and the last is whole

  __device__ T* row(int token) const { return data + token * stride; }
  __device__ bool has(int token, int pack) const {
    return token < tokens && pack * pack_size < features;
  }
  // As 4 words; 0 beyond the last feature.
  __device__ uint4 load(int token, int pack) const {
    const T* from = row(token) + pack * pack_size;
    if (in_packs) return *reinterpret_cast<const uint4*>(from);
    T numbers[pack_size];
#pragma unroll
    for (int i = 0; i < pack_size; ++i)
      numbers[i] = pack * pack_size + i < features ? from[i] : T{0};
    uint4 words;
    __builtin_memcpy(static_cast<void*>(&words), numbers, sizeof words);
    return words;
  }
  __device__ void store(int token, int pack, const uint4& words) const {
    T* to = row(token) + pack * pack_size;
    if (in_packs) {
      *reinterpret_cast<uint4*>(to) = words;
      return;
    }
    T numbers[pack_size];
    __builtin_memcpy(numbers, static_cast<const void*>(&words), sizeof words);
#pragma unroll
    for (int i = 0; i < pack_size; ++i)
      if (pack * pack_size + i < features) to[i] = numbers[i];
  }
};

// Where a pack lies in a tile of rows of `width` numbers. Packs change places from row to row, so
// that the rows of a matrix that ldmatrix reads at once come from different banks.
template <int width>
__device__ int place(int row, int pack) {
  return row * width + (pack ^ (row % 8)) * pack_size;
}

// Copies `rows` tokens from `first` on to a tile, with zeros for tokens and features that there are
// not. All threads of the block; the numbers are there behind ptx::cp_async_wait_all and a barrier.
template <int width, int rows, class T>
__device__ void load_tile(T* tile, const Head<T>& x, int first) {
  constexpr int packs = width / pack_size, turns = rows * packs / threads;
  static_assert(rows * packs % threads == 0);
  const auto each = [&](int turn, auto&& copy) {
    const int at = turn * threads + static_cast<int>(threadIdx.x);
    const int row = at / packs, pack = at % packs;
    copy(tile + place<width>(row, pack), first + row, pack, x.has(first + row, pack));
  };
  if (x.in_packs) {
#pragma unroll
    for (int turn = 0; turn < turns; ++turn)
      each(turn, [&](T* to, int token, int pack, bool real) {
        ptx::cp_async_16(to, real ? x.row(token) + pack * pack_size : x.data, real ? 16 : 0);
      });
    return;
  }
#pragma unroll 1
  for (int turn = 0; turn < turns; ++turn)
    each(turn, [&](T* to, int token, int pack, bool real) {
      *reinterpret_cast<uint4*>(to) = real ? x.load(token, pack) : uint4{0, 0, 0, 0};
    });
}

template <class T>
__device__ void multiply_add(float (&sums)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (__is_same(T, f16))
    ptx::mma_f16(sums, a, b0, b1);
  else
    ptx::mma_bf16(sums, a, b0, b1);
}

template <class T>
__device__ uint32_t rounded_pair(float low, float high) {
  if constexpr (__is_same(T, f16))
    return ptx::cvt_f16x2(high, low);
  else
    return ptx::cvt_bf16x2(high, low);
}

// The fragments of a sum have the form of a left operand's: two neighbours make one of those.
template <class T, int fragments>
__device__ void round_to(uint32_t (&left)[fragments / 2][4], const float (&sums)[fragments][4]) {
#pragma unroll
  for (int i = 0; i < fragments; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      left[i / 2][i % 2 * 2 + half] = rounded_pair<T>(sums[i][half * 2], sums[i][half * 2 + 1]);
}

template <int fragments>
__device__ void clear(float (&sums)[fragments][4]) {
#pragma unroll
  for (int i = 0; i < fragments; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) sums[i][j] = 0;
}

// The warp's 16 rows of a tile as left operand: in registers from load() on, or read anew for each
// product where a thread has no registers for them.
template <class T, int width, bool kept>
class LeftRows {
 public:
  __device__ explicit LeftRows(const T* tile)
      : tile_(tile + (warp_row() + lane() % 16) * width), swap_(lane() % 8) {}
  __device__ void load() {
    if constexpr (kept)
#pragma unroll
      for (int step = 0; step < width / 16; ++step) read(words_[step], step);
  }
  __device__ void get(uint32_t (&words)[4], int step) const {
    if constexpr (kept)
#pragma unroll
      for (int i = 0; i < 4; ++i) words[i] = words_[step][i];
    else
      read(words, step);
  }

 private:
  __device__ void read(uint32_t (&words)[4], int step) const {
    ptx::ldmatrix_x4(words, tile_ + ((step * 2 + lane() / 16) ^ swap_) * pack_size);
  }
  const T* tile_;
  int swap_;
  uint32_t words_[kept ? width / 16 : 1][4];
};

// sums += left right^T: each of the warp's rows with each of the `columns` rows of a tile.
template <int columns, class T, int width, bool kept>
__device__ void add_row_products(Sums<columns>& sums, const LeftRows<T, width, kept>& left,
                                 const T* right) {
  const int row = lane() / 16 * 8 + lane() % 8, half = lane() / 8 % 2;
#pragma unroll
  for (int step = 0; step < width / 16; ++step) {
    uint32_t a[4], b[4];
    left.get(a, step);
#pragma unroll
    for (int i = 0; i < columns / 16; ++i) {
      ptx::ldmatrix_x4(b, right + place<width>(i * 16 + row, step * 2 + half));
      multiply_add<T>(sums[i * 2], a, b[0], b[1]);
      multiply_add<T>(sums[i * 2 + 1], a, b[2], b[3]);
    }
  }
}

// sums += left right, of a tile of `rows` rows.
template <int width, int rows, class T>
__device__ void add_product(Sums<width>& sums, const Left<rows>& left, const T* right) {
  const int row = lane() % 16, half = lane() / 16;
#pragma unroll
  for (int step = 0; step < rows / 16; ++step)
#pragma unroll
    for (int i = 0; i < width / 16; ++i) {
      uint32_t b[4];
      ptx::ldmatrix_x4_trans(b, right + place<width>(step * 16 + row, i * 2 + half));
      multiply_add<T>(sums[i * 2], left[step], b[0], b[1]);
      multiply_add<T>(sums[i * 2 + 1], left[step], b[2], b[3]);
    }
}

// Stores the warp's 16 rows, times a factor for each half of them (of the lane's row and the one 8
// below), as tokens from `first` (of the block) on. They go by way of a tile in which nobody reads
// the warp's rows any more.
template <int width, class T>
__device__ void store_rows(const Head<T>& y, int first, T* tile, const Sums<width>& sums,
                           const float (&factor)[2]) {
  constexpr int packs = width / pack_size;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < width / 8; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      T* to = tile + place<width>(warp_row() + lane_row() + half * 8, i) + lane_column();
      *reinterpret_cast<uint32_t*>(to) =
          rounded_pair<T>(sums[i][half * 2] * factor[half], sums[i][half * 2 + 1] * factor[half]);
    }
  __syncwarp();
#pragma unroll 1
  for (int i = 0; i < rows_per_warp * packs / warp_size; ++i) {
    const int at = i * warp_size + lane(), row = warp_row() + at / packs, pack = at % packs;
    if (y.has(first + row, pack))
      y.store(first + row, pack, *reinterpret_cast<const uint4*>(tile + place<width>(row, pack)));
  }
}

}  // namespace booster::kernels::BOOSTER_VARIANT::tiles
