// Threads that share a row: a warp for a short row, so that a block handles eight, and a block for
// a long one. Each thread holds up to 32 elements of a row at a time; together these are a chunk. A
// row of up to 1024 or 8192 columns is thus read once, and a longer one chunk by chunk.
#pragma once

#include "kernels/cuda/fold.cuh"
#include "kernels/cuda/rows/packed.cuh"

namespace booster::kernels::BOOSTER_VARIANT {

// A quarter for f64, which is only for checks and whose functions need many registers.
template <class C>
inline constexpr int packs_held = sizeof(C) == 4 ? 4 : 1;
// The number of a row's elements that a thread has.
template <class C>
inline constexpr int held = packs_held<C>* pack_size;

struct WarpTeam {
  static constexpr int size = warp_size;
  static __device__ int rank() { return static_cast<int>(threadIdx.x) % warp_size; }
  static __device__ int index() { return static_cast<int>(threadIdx.x) / warp_size; }
  template <class C, class Combine>
  static __device__ C fold(C mine, Combine&& combine) {
    return fold_warp(mine, combine);
  }
};
struct BlockTeam {
  static constexpr int size = threads_per_block;
  static __device__ int rank() { return static_cast<int>(threadIdx.x); }
  static __device__ int index() { return 0; }
  template <class C, class Combine>
  static __device__ C fold(C mine, Combine&& combine) {
    return fold_lanes(mine, combine);
  }
};

// Combine a team's values; all its threads must call these.
template <class Team, class C>
__device__ C team_sum(C mine) {
  return Team::fold(mine, [](C a, C b) { return a + b; });
}
template <class Team, class C>
__device__ C team_max(C mine) {
  return Team::fold(mine, [](C a, C b) { return b > a ? b : a; });
}

// A team's partition of a row. Packs begin where the addresses of `x` are multiples of 8 elements.
// The same holds for every other tensor of that shape from the allocator.
template <class Team, class C>
struct Row {
  using Share = kernels::BOOSTER_VARIANT::Share<packs_held<C>, Team::size * pack_size>;
  static constexpr int64_t chunk_size = Team::size * held<C>;

  __device__ Row(const Operand& x, int64_t row, int64_t columns_)
      : begin(row * columns_),
        columns(columns_),
        shift(static_cast<int>((x.shift + begin) % pack_size)) {}
  __device__ int64_t chunks() const { return (columns + shift + chunk_size - 1) / chunk_size; }
  // Returns this thread's part of a chunk.
  __device__ Share share(int64_t chunk) const {
    return {chunk * chunk_size + Team::rank() * pack_size - shift, columns};
  }

  int64_t begin, columns;
  int shift;
};

// With 128 registers a thread can hold 32 elements and their computation, and enough loads are in
// flight to keep the memory busy.
inline constexpr int blocks_at_once = 2;

// Calls body(row) for row in [0, rows), all threads of a team together.
template <class Team, class Body>
void for_each_row(int64_t rows, Body body) {
  constexpr int64_t most_blocks = 1 << 20;
  constexpr int64_t per_block = threads_per_block / Team::size;
  const int64_t wanted = (rows + per_block - 1) / per_block;
  const int64_t blocks = wanted < most_blocks ? wanted : most_blocks;
  for_each_block<blocks_at_once>(blocks, [=] ON_DEVICE(int64_t block) {
    for (int64_t row = block * per_block + Team::index(); row < rows; row += blocks * per_block)
      body(row);
  });
}

// Calls f, on the host, with typed null pointers that represent the compute type of a dtype, and
// the team for rows of `columns`.
template <class F>
void visit_teams(DType dtype, int64_t columns, F&& f) {
  visit_compute(dtype, [&](auto* compute) {
    if (columns <= 1024)
      f(compute, static_cast<WarpTeam*>(nullptr));
    else
      f(compute, static_cast<BlockTeam*>(nullptr));
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
