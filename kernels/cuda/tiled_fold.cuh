// Folds of many values into one: sums, maxima, first positions. A block has a tile of outputs, and
// several threads share an output. If there are few outputs of many values, several blocks first
// fold parts. The order depends only on the sizes.
//
// A Fold has a type Value, identity() and combine(a, b), which must be commutative.
#pragma once

#include "kernels/cuda/space.cuh"
#include "kernels/launch/workspace.h"

namespace booster::kernels::BOOSTER_VARIANT {

// How threads share `outputs` folds of `count` values each.
struct Tiling {
  int64_t outputs, count;
  bool side_by_side;  // neighbouring threads have neighbouring outputs instead of the same one
  int width = 1;      // threads for each output of a block, a power of two
  int64_t parts = 1;  // blocks for each output
  int64_t part_size = 0;

  KERNEL_FN int height() const { return threads_per_block / width; }
  int64_t groups() const { return (outputs + height() - 1) / height(); }
};

inline Tiling tiling_of(int64_t outputs, int64_t count, bool side_by_side, bool in_parts = true) {
  constexpr int64_t enough_blocks = 1024, values_per_thread = 4, values_per_part = 16;
  Tiling tiling = {outputs, count, side_by_side};
  // Side by side, a warp reads 32 neighbours at a time.
  int least_height = 1;
  while (side_by_side && least_height < warp_size && least_height < outputs) least_height *= 2;
  while (tiling.width * values_per_thread < count && tiling.height() > least_height)
    tiling.width *= 2;
  const int64_t groups = tiling.groups();
  const int64_t wanted = groups > 0 ? enough_blocks / groups : 1;
  const int64_t possible = in_parts ? count / (tiling.width * values_per_part) : 1;
  const int64_t parts = wanted < possible ? wanted : possible;
  tiling.part_size = parts > 1 ? (count + parts - 1) / parts : count;
  if (parts > 1) tiling.parts = (count + tiling.part_size - 1) / tiling.part_size;
  return tiling;
}

// Folds the values of the threads that share an output, in halves; the first thread has the result.
template <class Fold>
__device__ typename Fold::Value fold_tile(const Tiling& tiling, int lane, const Fold& fold,
                                          typename Fold::Value mine) {
  SHARED(typename Fold::Value, values, threads_per_block);
  const int thread = static_cast<int>(threadIdx.x);
  values[thread] = mine;
  for (int half = tiling.width / 2; half > 0; half /= 2) {
    __syncthreads();
    if (lane >= half) continue;
    const int other = thread + half * (tiling.side_by_side ? tiling.height() : 1);
    values[thread] = mine = fold.combine(mine, values[other]);
  }
  return mine;
}

// Calls write(output, part, value) for every output and part. read(fold, output, i, end, step)
// folds the values i, i + step, ... before end.
template <class Fold, class Read, class Write>
void fold_parts(const Tiling& tiling, Fold fold, Read read, Write write) {
  for_each_block(tiling.groups() * tiling.parts, [=] ON_DEVICE(int64_t block) {
    const int thread = static_cast<int>(threadIdx.x), height = tiling.height();
    const int slot = tiling.side_by_side ? thread % height : thread / tiling.width;
    const int lane = tiling.side_by_side ? thread / height : thread % tiling.width;
    const int64_t group = quotient(block, tiling.parts), part = block - group * tiling.parts;
    const int64_t output = group * height + slot, begin = part * tiling.part_size;
    const int64_t stop = begin + tiling.part_size;
    const int64_t end = stop < tiling.count ? stop : tiling.count;
    auto mine = fold.identity();
    if (output < tiling.outputs && begin + lane < end)
      mine = read(fold, output, begin + lane, end, tiling.width);
    mine = fold_tile(tiling, lane, fold, mine);
    if (lane == 0 && output < tiling.outputs) write(output, part, mine);
  });
}

// Reads partial results.
template <class Value>
struct PartialRun {
  const Value* partial;
  int64_t parts;

  template <class Fold>
  __device__ Value operator()(const Fold& fold, int64_t output, int64_t i, int64_t end,
                              int64_t step) const {
    Value value = fold.identity();
    for (; i < end; i += step) value = fold.combine(value, partial[output * parts + i]);
    return value;
  }
};

// Writes partial results, or finish(output, value) if there are none.
template <class Value, class Finish>
struct WritePart {
  Value* partial;
  int64_t parts;
  Finish finish;

  __device__ void operator()(int64_t output, int64_t part, const Value& value) const {
    if (partial)
      partial[output * parts + part] = value;
    else
      finish(output, value);
  }
};

// Calls finish(output, value) for every output; `read` as above.
template <class Fold, class Read, class Finish>
void fold_all(const Tiling& tiling, Fold fold, Read read, Finish finish) {
  using Value = typename Fold::Value;
  const WritePart<Value, Finish> last = {nullptr, 1, finish};
  if (tiling.parts == 1) return fold_parts(tiling, fold, read, last);
  const Workspace<Value> partial(tiling.outputs * tiling.parts);
  fold_parts(tiling, fold, read, WritePart<Value, Finish>{partial.data(), tiling.parts, finish});
  fold_parts(tiling_of(tiling.outputs, tiling.parts, false, false), fold,
             PartialRun<Value>{partial.data(), tiling.parts}, last);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
