// Copies between tensors that are dense along different dimensions, such as a matrix and its
// transpose, or images in channels-first and channels-last order. They use tiles in the block's
// memory, so that both sides are accessed in runs.
#pragma once

#include "kernels/cuda/elementwise/dense_map.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/walks/space.h"
#include "kernels/walks/walk.h"

namespace booster::kernels::BOOSTER_VARIANT {

// Returns the only dimension along which an operand is dense; -1 if there is not exactly one.
inline int dense_dimension(const Walk& walk, int operand) {
  int found = -1;
  for (int d = 0; d < walk.ndim; ++d)
    if (walk.shape[d] > 1 && walk.strides[operand][d] == size_of(walk.dtypes[operand])) {
      if (found >= 0) return -1;
      found = d;
    }
  return found;
}

// A walk over two operands, strides in bytes: the first is dense along dimension `to`, the second
// along `from`. A tile has 4096 elements, and the width of a short run if there is one, such as a
// few channels.
struct Turn {
  static constexpr int size_bits = 12, most_bits = 6;
  static constexpr int room = (1 << size_bits) + (1 << (size_bits - 2));  // of 4 x 1024, padded

  explicit Turn(const Walk& walk)
      : walk(walk), to(dense_dimension(walk, 0)), from(dense_dimension(walk, 1)) {
    if (!is_turn()) return;
    to_bits = bits_of(walk.shape[to]);
    from_bits = bits_of(walk.shape[from]);
    to_bits < from_bits ? from_bits = size_bits - to_bits : to_bits = size_bits - from_bits;
    across = (walk.shape[to] + (1 << to_bits) - 1) >> to_bits;
    down = (walk.shape[from] + (1 << from_bits) - 1) >> from_bits;
    for (int d = 0; d < walk.ndim; ++d) others *= d == to || d == from ? 1 : walk.shape[d];
  }
  // Returns true if tiles are faster; they are not for runs of two.
  bool is_turn() const {
    return to >= 0 && from >= 0 && to != from && walk.shape[to] > 2 && walk.shape[from] > 2;
  }
  // Returns the offset of position i of the other dimensions.
  __device__ int64_t offset(int operand, int64_t i) const {
    int64_t at = 0;
    for (int d = walk.ndim - 1; d >= 0; --d) {
      if (d == to || d == from) continue;
      const int64_t rest = quotient(i, walk.shape[d]);
      at += (i - rest * walk.shape[d]) * walk.strides[operand][d];
      i = rest;
    }
    return at;
  }

  Walk walk;
  int to, from;
  int to_bits = 0, from_bits = 0;  // log2 of a tile's sides
  int64_t across = 0, down = 0, others = 1;

 private:
  // Returns the least bits with 2^bits >= n, but 2 to 6.
  static int bits_of(int64_t n) {
    int bits = 2;
    while (bits < most_bits && (1 << bits) < n) ++bits;
    return bits;
  }
};

// Copies a tile. Neighbouring threads access neighbours in memory, first of one side and then of
// the other. All loads of a thread are in flight together.
__device__ inline void turn_tile(const Turn& turn, int64_t block) {
  constexpr int each = (1 << Turn::size_bits) / threads_per_block;
  SHARED(float, tile, Turn::room);
  const Walk& walk = turn.walk;
  const int64_t place = quotient(block, turn.across), other = quotient(place, turn.down);
  const int64_t first_to = (block - place * turn.across) << turn.to_bits;
  const int64_t first_from = (place - other * turn.down) << turn.from_bits;
  const char* in = walk.data[1] + turn.offset(1, other);
  char* out = walk.data[0] + turn.offset(0, other);
  const int64_t left_to = walk.shape[turn.to] - first_to;
  const int64_t left_from = walk.shape[turn.from] - first_from;
  const int row_of_tile = (1 << turn.from_bits) + 1, thread = static_cast<int>(threadIdx.x);
  visit_quad(walk.dtypes[1], [&]<class T>(T*) {
    const int64_t step = walk.strides[1][turn.to];
    const char* p = in + first_to * step + first_from * int64_t(sizeof(T));
    T element[each] = {};
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int number = i * threads_per_block + thread, to = number >> turn.from_bits;
      const int from = number - (to << turn.from_bits);
      if (to < left_to && from < left_from)
        element[i] = *reinterpret_cast<const T*>(p + to * step + from * int64_t(sizeof(T)));
    }
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int number = i * threads_per_block + thread, to = number >> turn.from_bits;
      tile[to * row_of_tile + number - (to << turn.from_bits)] = load<float>(element + i);
    }
  });
  __syncthreads();
  visit_quad(walk.dtypes[0], [&]<class T>(T*) {
    const int64_t step = walk.strides[0][turn.from];
    char* p = out + first_from * step + first_to * int64_t(sizeof(T));
#pragma unroll
    for (int i = 0; i < each; ++i) {
      const int number = i * threads_per_block + thread, from = number >> turn.to_bits;
      const int to = number - (from << turn.to_bits);
      if (to < left_to && from < left_from)
        store(reinterpret_cast<T*>(p + from * step + to * int64_t(sizeof(T))),
              tile[to * row_of_tile + from]);
    }
  });
}

// Copies by tiles; strides are in bytes. Returns false, and copies nothing, if the operands are not
// of this kind.
inline bool copy_turned(const Walk& walk) {
  if (!may_be_quad(walk.dtypes[0]) || !may_be_quad(walk.dtypes[1])) return false;
  const Turn turn(walk);
  if (!turn.is_turn()) return false;
  for_each_block(turn.across * turn.down * turn.others,
                 [=] ON_DEVICE(int64_t block) { turn_tile(turn, block); });
  return true;
}

}  // namespace booster::kernels::BOOSTER_VARIANT
