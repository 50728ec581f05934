// Products on the matrix units of tiles of 16-bit elements in the block's memory. Each warp has 16
// rows of the left tile. Sums and scores stay in a warp's fragments (kernels/cuda/ptx.cuh has each
// lane's elements).
#pragma once

#include "kernels/numbers/convert.h"
#include "kernels/cuda/fold.cuh"
#include "kernels/cuda/ptx.cuh"

namespace booster::kernels::BOOSTER_VARIANT::tiles {

inline constexpr int rows_per_warp = 16;
inline constexpr int part = 16;      // the fewest columns of a product
inline constexpr int pack_size = 8;  // elements in 16 bytes

__device__ inline int lane() { return static_cast<int>(threadIdx.x) % warp_size; }
// Returns the calling warp's first row of a tile.
__device__ inline int warp_row() {
  return static_cast<int>(threadIdx.x) / warp_size * rows_per_warp;
}
// Return the row and first column of a lane's elements in a fragment of sums. Elements 0 and 1 are
// (lane_row, lane_column) and its neighbour; 2 and 3 are 8 rows below.
__device__ inline int lane_row() { return lane() / 4; }
__device__ inline int lane_column() { return lane() % 4 * 2; }

// A sum's fragments: 16 rows of `columns` elements.
template <int columns>
using Sums = float[columns / 8][4];
// The same rounded to 16 bits, as the left operand of a product.
template <int columns>
using Left = uint32_t[columns / 16][4];

// One head of a tensor (batch, heads, tokens, features) with dense features. `whole`: each row's
// packs begin at a multiple of 16 bytes, and the last one is complete.
template <class T, bool whole>
struct Head {
  T* data;
  int64_t stride;  // of tokens
  int tokens, features;
  bool may_be_whole;  // the same, determined at the launch

  __device__ bool in_packs() const { return whole || may_be_whole; }
  __device__ T* at(int token, int pack) const { return data + token * stride + pack * pack_size; }
  __device__ bool has(int token, int pack) const {
    return token < tokens && pack * pack_size < features;
  }
  // Returns a pack as 4 words; 0 beyond the last feature.
  __device__ uint4 load(int token, int pack) const {
    const T* from = at(token, pack);
    if (in_packs()) return *reinterpret_cast<const uint4*>(from);
    T numbers[pack_size];
#pragma unroll
    for (int i = 0; i < pack_size; ++i)
      numbers[i] = pack * pack_size + i < features ? from[i] : T{0};
    uint4 words;
    __builtin_memcpy(static_cast<void*>(&words), numbers, sizeof words);
    return words;
  }
  __device__ void store(int token, int pack, const uint4& words) const {
    T numbers[pack_size];
    __builtin_memcpy(numbers, static_cast<const void*>(&words), sizeof words);
#pragma unroll
    for (int i = 0; i < pack_size; ++i)
      if (pack * pack_size + i < features) at(token, pack)[i] = numbers[i];
  }
};

// Returns the position of a pack in a tile with rows of `width` elements. Packs are permuted from
// row to row, so that the rows of a matrix that ldmatrix reads together are in different banks. If
// pack 0 of a row is at `begin`, pack i is at begin ^ i * pack_size, and at the same distance 8
// rows below. Most addresses are therefore computed once; the others differ from them by constants.
template <int width>
__device__ int place(int row, int pack) {
  return row * width + (pack ^ (row % 8)) * pack_size;
}

// Copies tokens of a head to tiles, with all threads of a block of `warps`. Handles `count` tensors
// with the same tokens and features. A thread's packs are in one column of packs, a constant number
// of rows apart, so it needs only one address for each tensor.
template <int warps, int width, int count, class T, bool whole>
class TileLoader {
 public:
  __device__ TileLoader(const Head<T, whole> (&x)[count], int first)
      : begin_(place<width>(row(), pack())),
        left_(x[0].has(0, pack()) ? x[0].tokens - first - row() : 0) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      x_[i] = x[i];
      from_[i] = x[i].at(first + row(), pack());
    }
  }

  // Loads the next tokens to consecutive tiles, with zeros for missing tokens and features. The
  // elements have arrived after ptx::cp_async_wait_all and a barrier.
  template <int rows>
  __device__ void load(T* tiles) {
#pragma unroll
    for (int i = 0; i < count; ++i) {
      if (x_[i].in_packs())
        copy<rows>(tiles + i * rows * width, x_[i], from_[i]);
      else
        copy_parts<rows>(tiles + i * rows * width, x_[i]);
      from_[i] += rows * x_[i].stride;
    }
    left_ -= rows;
  }

 private:
  static constexpr int packs = width / pack_size, turn_rows = warps * warp_size / packs;
  static_assert(turn_rows % 4 == 0);
  __device__ static int row() { return static_cast<int>(threadIdx.x) / packs; }
  __device__ static int pack() { return static_cast<int>(threadIdx.x) % packs; }

  template <int rows>
  __device__ void copy(T* tile, const Head<T, whole>& x, const T* from) const {
#pragma unroll
    for (int down = 0; down < rows; down += turn_rows) {
      if (rows < down + turn_rows && row() + down >= rows) return;
      // 4 rows below, packs whose indices differ by 4 are exchanged (see place()).
      T* const to = tile + (begin_ ^ down % 8 * pack_size) + down * width;
      ptx::cp_async_16(to, from, down < left_ ? 16 : 0);
      from += turn_rows * x.stride;
    }
  }
  // Copies rows in which no pack can be read as a whole.
  template <int rows>
  __device__ void copy_parts(T* tile, const Head<T, whole>& x) const {
#pragma unroll 1
    for (int down = 0; row() + down < rows; down += turn_rows)
      *reinterpret_cast<uint4*>(tile + place<width>(row() + down, pack())) =
          down < left_ ? x.load(x.tokens - left_ + down, pack()) : uint4{0, 0, 0, 0};
  }

  Head<T, whole> x_[count];
  const T* from_[count];  // this thread's next pack
  const int begin_;       // its position in a tile
  int left_;              // remaining tokens from it on
};

// Calls load(stage) for successive tiles of `step` tokens, and body(token, stage) for each once it
// has arrived. With two stages, the next tile loads while one is computed. Earlier copies have
// arrived when `begin` is called.
template <int stages, int step, class Load, class Begin, class Body>
__device__ void for_each_step(int from, int to, Load&& load, Begin&& begin, Body&& body) {
  if (from < to) load(0);
  ptx::cp_async_wait_all();
  __syncthreads();
  begin();
  int stage = 0;
  for (int token = from; token < to; token += step) {
    const bool last = token + step >= to;
    if (stages == 2 && !last) load(1 - stage);
    body(token, stage);
    if (last) return;
    if (stages == 1) {
      __syncthreads();  // the tiles are no longer read
      load(0);
    }
    ptx::cp_async_wait_all();
    __syncthreads();
    if (stages == 2) stage ^= 1;
  }
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

// Rounds a sum to a left operand. Two neighbouring fragments of a sum form one of the operand.
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

// The warp's 16 rows of a tile as left operand. load() puts them in registers. If a thread has no
// registers for them, each product reads them again.
template <class T, int width, bool kept>
class LeftRows {
 public:
  __device__ explicit LeftRows(const T* tile)
      : tile_(tile), begin_(place<width>(warp_row() + lane() % 16, lane() / 16)) {}
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
    ptx::ldmatrix_x4(words, tile_ + (begin_ ^ step * 2 * pack_size));
  }
  const T* tile_;
  int begin_;
  uint32_t words_[kept ? width / 16 : 1][4];
};

// Adds sums += left right^T: each of the warp's rows with each of the `columns` rows of a tile.
template <int columns, class T, int width, bool kept>
__device__ void add_row_products(Sums<columns>& sums, const LeftRows<T, width, kept>& left,
                                 const T* right) {
  const int begin = place<width>(lane() / 16 * 8 + lane() % 8, lane() / 8 % 2);
#pragma unroll
  for (int step = 0; step < width / 16; ++step) {
    uint32_t a[4], b[4];
    left.get(a, step);
    const T* const rows = right + (begin ^ step * 2 * pack_size);
#pragma unroll
    for (int i = 0; i < columns / 16; ++i) {
      ptx::ldmatrix_x4(b, rows + i * 16 * width);
      multiply_add<T>(sums[i * 2], a, b[0], b[1]);
      multiply_add<T>(sums[i * 2 + 1], a, b[2], b[3]);
    }
  }
}

// Adds sums += left right, of a tile of `rows` rows.
template <int width, int rows, class T>
__device__ void add_product(Sums<width>& sums, const Left<rows>& left, const T* right) {
  const int begin = place<width>(lane() % 16, lane() / 16);
#pragma unroll
  for (int step = 0; step < rows / 16; ++step)
#pragma unroll
    for (int i = 0; i < width / 16; ++i) {
      uint32_t b[4];
      ptx::ldmatrix_x4_trans(b, right + (begin ^ i * 2 * pack_size) + step * 16 * width);
      multiply_add<T>(sums[i * 2], left[step], b[0], b[1]);
      multiply_add<T>(sums[i * 2 + 1], left[step], b[2], b[3]);
    }
}

// Calls body(columns, first column) for the parts of a tile that have columns in [from, before):
// the whole tile, or 16 columns at a time. The tile has `columns` columns, beginning with column
// `first`. A type holds the number of columns, so that it is a constant for the body.
template <int number>
struct Constant {
  static constexpr int value = number;
};
template <int columns, class Body>
__device__ void for_each_part(int first, int from, int to, Body&& body) {
  if (first + part > from && first + columns - part < to) return body(Constant<columns>{}, 0);
  if constexpr (columns > part)
#pragma unroll 1
    for (int i = 0; i < columns; i += part)
      if (first + i + part > from && first + i < to) body(Constant<part>{}, i);
}

// Stores the warp's 16 rows as tokens from `first` (of the block) on. Each half is multiplied by a
// factor (the lane's row, and the row 8 below). The rows pass through `tile`; no other thread reads
// the warp's rows there any more.
template <int width, class T, bool whole>
__device__ void store_rows(const Head<T, whole>& y, int first, T* tile, const Sums<width>& sums,
                           const float (&factor)[2]) {
  constexpr int packs = width / pack_size, turn_rows = warp_size / packs;
  __syncwarp();
  const int begin = place<width>(warp_row() + lane_row(), 0) + lane_column();
#pragma unroll
  for (int i = 0; i < packs; ++i)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      *reinterpret_cast<uint32_t*>(tile + (begin ^ i * pack_size) + half * 8 * width) =
          rounded_pair<T>(sums[i][half * 2] * factor[half], sums[i][half * 2 + 1] * factor[half]);
  __syncwarp();
  const int row = warp_row() + lane() / packs, pack = lane() % packs;
  const auto words_of = [&](int down) {
    return *reinterpret_cast<const uint4*>(tile + place<width>(row + down, pack));
  };
  if (y.in_packs()) {
    T* to = y.at(first + row, pack);
#pragma unroll
    for (int down = 0; down < rows_per_warp; down += turn_rows, to += turn_rows * y.stride)
      if (y.has(first + row + down, pack)) *reinterpret_cast<uint4*>(to) = words_of(down);
    return;
  }
#pragma unroll 1
  for (int down = 0; down < rows_per_warp; down += turn_rows)
    if (y.has(first + row + down, pack)) y.store(first + row + down, pack, words_of(down));
}

}  // namespace booster::kernels::BOOSTER_VARIANT::tiles
