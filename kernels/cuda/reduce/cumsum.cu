// Prefix sums. A thread sums a line if there are many lines or they are short. Otherwise a block
// does, whose threads sum neighbouring elements tile by tile.
#include "kernels/catalogue.h"
#include "kernels/numbers/convert.h"
#include "kernels/cuda/index/scan.cuh"
#include "kernels/cuda/index/slices.cuh"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

struct Lines {
  View y, x;
  Slices slices;
  bool reverse;

  __device__ int64_t element(int64_t line, int64_t i) const {
    const int64_t o = quotient(line, slices.inner), column = line - o * slices.inner;
    const int64_t at = reverse ? slices.extent - 1 - i : i;
    return (o * slices.extent + at) * slices.inner + column;
  }
};

template <class C>
void sum_by_thread(const Lines& lines, int64_t count) {
  for_each_item(count, [=] ON_DEVICE(int64_t line) {
    C sum = 0;
    for (int64_t i = 0; i < lines.slices.extent; ++i) {
      const int64_t at = lines.element(line, i);
      sum += load_any<C>(lines.x.data, lines.x.dtype, at);
      store_any<C>(lines.y.data, lines.y.dtype, at, sum);
    }
  });
}

template <class C>
void sum_by_block(const Lines& lines, int64_t count) {
  for_each_block(count, [=] ON_DEVICE(int64_t line) {
    SHARED(C, last, 1);
    const int thread = static_cast<int>(threadIdx.x);
    C before_tile = 0;
    for (int64_t tile = 0; tile < lines.slices.extent; tile += threads_per_block) {
      const int64_t i = tile + thread;
      const bool inside = i < lines.slices.extent;
      const int64_t at = inside ? lines.element(line, i) : 0;
      const C mine = inside ? load_any<C>(lines.x.data, lines.x.dtype, at) : C(0);
      const C through = before_tile + sum_before(mine) + mine;
      if (inside) store_any<C>(lines.y.data, lines.y.dtype, at, through);
      if (thread == threads_per_block - 1) last[0] = through;
      __syncthreads();
      before_tile = last[0];
      __syncthreads();  // before the next tile writes it
    }
  });
}

template <class C>
void sum_lines(const Lines& lines) {
  constexpr int64_t many = 4096;
  const int64_t count = lines.slices.outer * lines.slices.inner;
  if (count >= many || lines.slices.extent < threads_per_block)
    sum_by_thread<C>(lines, count);
  else
    sum_by_block<C>(lines, count);
}

}  // namespace

void cumsum(View y, View x, int dim, bool reverse) {
  if (x.size() == 0) return;
  const Lines lines = {y, x, slices_of(x, dim), reverse};
  if (is_floating(x.dtype))
    sum_lines<double>(lines);
  else
    sum_lines<int64_t>(lines);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
