// Elementwise kernels on a GPU: a thread converts its operands to the compute type and the result
// back. Dtypes are resolved at run time, so there is one kernel per op and compute type. Dense
// operands computed in f32 are read and written in quads (dense_map.cuh); other elements, including
// those before and after the quads, one by one. Copies across dimensions use tiles
// (turned_copy.cuh).
#pragma once

#include "kernels/numbers/convert.h"
#include "kernels/cuda/elementwise/dense_map.cuh"
#include "kernels/cuda/elementwise/turned_copy.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/cuda/runtime/refusals.h"
#include "kernels/cuda/space.cuh"
#include "kernels/elementwise/elementwise_math.h"
#include "kernels/walks/walk.h"

namespace booster::kernels::BOOSTER_VARIANT {

// A walk as a kernel's argument, with strides in bytes. One operand may be a single value in the
// host's memory (the scalar of a binary op), passed by value.
struct DeviceWalk {
  Walk walk;
  int64_t size = 1;
  int host_operand = -1;
  double host_value;  // 8 bytes of any dtype

  // Computes the address of each operand's element i.
  template <int operands>
  KERNEL_FN void find(int64_t i, const char** p) const {
    int64_t offset[operands] = {};
    for (int d = walk.ndim - 1; d >= 0; --d) {
      const int64_t rest = d > 0 ? quotient(i, walk.shape[d]) : 0;
      const int64_t at = i - rest * walk.shape[d];
      for (int k = 0; k < operands; ++k) offset[k] += at * walk.strides[k][d];
      i = rest;
    }
    for (int k = 0; k < operands; ++k) {
      const char* first =
          k == host_operand ? reinterpret_cast<const char*>(&host_value) : walk.data[k];
      p[k] = first + offset[k];
    }
  }
};

inline bool is_single_value(const View& view) {
  for (int d = 0; d < view.ndim; ++d)
    if (view.shape[d] > 1 && view.strides[d] != 0) return false;
  return true;
}

inline DeviceWalk device_walk(const View* const* views, int operands) {
  DeviceWalk walk = {.walk = walk_over(views, operands)};
  for (int d = 0; d < walk.walk.ndim; ++d) walk.size *= walk.walk.shape[d];
  for (int k = 0; k < operands; ++k) {
    for (int d = 0; d < walk.walk.ndim; ++d) walk.walk.strides[k][d] *= size_of(views[k]->dtype);
    if (views[k]->device.type == DeviceType::cuda) continue;
    if (k == 0 || walk.host_operand >= 0 || !is_single_value(*views[k])) refuse_mixed_devices();
    walk.host_operand = k;
    __builtin_memcpy(&walk.host_value, views[k]->data, size_of(views[k]->dtype));
  }
  return walk;
}

// True for functions that choose their row at run time (chosen.cuh). Their elements are mapped one
// by one, because a quad would repeat all rows sixteen times.
template <class F>
constexpr bool is_chosen = requires(F f) { f.op; };

template <class C, int inputs, class F>
__device__ void map_element(const DeviceWalk& walk, int64_t i, F f) {
  const char* p[inputs + 1];
  walk.template find<inputs + 1>(i, p);
  C x[inputs];
  for (int k = 0; k < inputs; ++k) x[k] = load_any<C>(p[k + 1], walk.walk.dtypes[k + 1], 0);
  store_any<C>(const_cast<char*>(p[0]), walk.walk.dtypes[0], 0,
               apply<inputs>(f, [&](int k) { return x[k]; }));
}

// Maps quads. All loops are unrolled, because an array with a variable index would be in local
// memory.
template <int inputs, class F>
__device__ void map_quads(const DeviceWalk& walk, const Quads& quads, int64_t block, F f) {
  constexpr int operands = inputs + 1;
  const char* p[operands][quads_per_thread] = {};
#pragma unroll
  for (int turn = 0; turn < quads_per_thread; ++turn) {
    const int64_t at = block * quads_per_block + turn * threads_per_block + threadIdx.x;
    if (at >= quads.count) continue;
    const char* of_turn[operands];
    walk.template find<operands>(quads.head + at * quad, of_turn);
#pragma unroll
    for (int k = 0; k < operands; ++k) p[k][turn] = of_turn[k];
  }
  float x[inputs][quads_per_thread][quad] = {}, y[quads_per_thread][quad];
  const int last = walk.walk.ndim - 1;
#pragma unroll
  for (int k = 0; k < inputs; ++k)
    load_quads(x[k], p[k + 1], walk.walk.dtypes[k + 1], walk.walk.strides[k + 1][last] == 0);
#pragma unroll
  for (int turn = 0; turn < quads_per_thread; ++turn)
#pragma unroll
    for (int i = 0; i < quad; ++i)
      y[turn][i] = apply<inputs>(f, [&](int k) { return x[k][turn][i]; });
  store_quads(p[0], walk.walk.dtypes[0], y);
}

// Maps a block's elements: the first blocks handle the quads, the others all other elements.
template <class C, int inputs, class F>
__device__ void map_block(const DeviceWalk& walk, const Quads& quads, int64_t block, F f) {
  if constexpr (__is_same(C, float) && !is_chosen<F>)
    if (block < quads.blocks()) return map_quads<inputs>(walk, quads, block, f);
  const int64_t other = (block - quads.blocks()) * threads_per_block + threadIdx.x;
  const int64_t i = other < quads.head ? other : other + quads.count * quad;
  if (i < walk.size) map_element<C, inputs>(walk, i, f);
}

// Computes operand 0 = f(operand 1, ...) of every element, in compute type C.
template <class C, int inputs, class F>
void map_walk(const DeviceWalk& walk, F f) {
  const Quads quads =
      __is_same(C, float) && !is_chosen<F> ? quads_of(walk.walk, walk.size) : Quads{};
  const int64_t others = walk.size - quads.count * quad;
  for_each_block(quads.blocks() + (others + threads_per_block - 1) / threads_per_block,
                 [=] ON_DEVICE(int64_t block) { map_block<C, inputs>(walk, quads, block, f); });
}

template <class C, int inputs, class F>
void map(const View* const* views, F f) {
  map_walk<C, inputs>(device_walk(views, inputs + 1), f);
}

// The same for comparisons.
template <class C, int inputs, class F>
void map_truth(const View* const* views, F f) {
  map<C, inputs>(views, f);
}

template <class C>
void convert(const View* const* views) {
  const DeviceWalk walk = device_walk(views, 2);
  if constexpr (__is_same(C, float))
    if (walk.host_operand < 0 && copy_turned(walk.walk)) return;
  map_walk<C, 1>(walk, Same());
}

}  // namespace booster::kernels::BOOSTER_VARIANT
