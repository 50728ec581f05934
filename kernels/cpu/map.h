// Elementwise kernels on the CPU: the innermost run is cut into chunks that stay in the first-level
// cache; each chunk is converted to the compute type (unless it already has it), computed by a loop
// that vectorises, and converted back.
#pragma once

#include "kernels/convert.h"
#include "kernels/elementwise_math.h"
#include "kernels/walk.h"

namespace booster::kernels::BOOSTER_VARIANT {

inline constexpr int64_t chunk = 512;           // 4 KB of doubles per operand
inline constexpr int64_t parallel_chunks = 32;  // fewer are not worth waking threads for

// Calls body(pointers, strides, n) for every chunk; pointers[k] is operand k's first element.
template <class Body>
void for_each_chunk(const Walk& walk, Body&& body) {
  const int last = walk.ndim - 1;
  const int64_t inner = walk.shape[last];
  int64_t outer = 1;
  for (int i = 0; i < last; ++i) outer *= walk.shape[i];
  if (inner == 0 || outer == 0) return;
  const int64_t chunks_per_run = (inner + chunk - 1) / chunk;
  const int64_t total = outer * chunks_per_run;
  auto visit_chunk = [&](int64_t index) {
    const int64_t run = index / chunks_per_run;
    const int64_t begin = (index - run * chunks_per_run) * chunk;
    char* pointers[max_operands];
    int64_t strides[max_operands];
    for (int k = 0; k < walk.operands; ++k) {
      int64_t offset = begin * walk.strides[k][last];
      int64_t rest = run;
      for (int i = last - 1; i >= 0; --i) {
        offset += rest % walk.shape[i] * walk.strides[k][i];
        rest /= walk.shape[i];
      }
      pointers[k] = walk.data[k] + offset * size_of(walk.dtypes[k]);
      strides[k] = walk.strides[k][last];
    }
    body(pointers, strides, begin + chunk < inner ? chunk : inner - begin);
  };
  if (total < parallel_chunks) {
    for (int64_t i = 0; i < total; ++i) visit_chunk(i);
  } else {
    for_each_range(total, 16, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) visit_chunk(i);
    });
  }
}

template <class C>
struct alignas(64) Buffer {
  C values[chunk];
};

// Operand as a dense run of C.
template <class C>
const C* read_run(const char* p, DType dtype, int64_t stride, int64_t n, Buffer<C>& buffer) {
  if (stride == 1 && dtype == DTypeOf<C>::value) return reinterpret_cast<const C*>(p);
  load_run(buffer.values, p, dtype, stride, n);
  return buffer.values;
}

// The loop of one op over a dense chunk: y[i] from x[0][i], x[1][i], ...
template <class C>
using Loop = void (*)(C* y, const C* const* x, int64_t n);

// Computes y = loop(inputs) chunk by chunk in compute type C. The walk is compiled once per C; only
// the loops are compiled per op.
template <class C>
void map_chunks(const View* const* views, int inputs, Loop<C> loop) {
  const Walk walk = walk_over(views, inputs + 1);
  for_each_chunk(walk, [&](char** p, const int64_t* strides, int64_t n) {
    Buffer<C> in[max_operands - 1];
    Buffer<C> out;
    const C* x[max_operands - 1] = {};
    for (int k = 0; k < inputs; ++k)
      x[k] = read_run<C>(p[k + 1], walk.dtypes[k + 1], strides[k + 1], n, in[k]);
    const bool direct = strides[0] == 1 && walk.dtypes[0] == DTypeOf<C>::value;
    C* y = direct ? reinterpret_cast<C*>(p[0]) : out.values;
    loop(y, x, n);
    if (!direct) store_run(p[0], walk.dtypes[0], strides[0], y, n);
  });
}

// views[0] = f(views[1], ...) of every element, in compute type C.
template <class C, int inputs, class F>
void map(const View* const* views, F) {
  map_chunks<C>(views, inputs, [](C* y, const C* const* in, int64_t n) {
    const C* p[inputs];
    for (int k = 0; k < inputs; ++k) p[k] = in[k];
    for (int64_t i = 0; i < n; ++i) y[i] = apply<inputs>(F(), [&](int k) { return p[k][i]; });
  });
}

// out = in, converted from any dtype to any other in compute type C; directly into out if out has
// that type.
template <class C>
void convert(const View* const* views) {
  const Walk walk = walk_over(views, 2);
  for_each_chunk(walk, [&](char** p, const int64_t* strides, int64_t n) {
    Buffer<C> buffer;
    const bool direct = strides[0] == 1 && walk.dtypes[0] == DTypeOf<C>::value;
    if (direct) return load_run(reinterpret_cast<C*>(p[0]), p[1], walk.dtypes[1], strides[1], n);
    const C* x = read_run<C>(p[1], walk.dtypes[1], strides[1], n, buffer);
    store_run(p[0], walk.dtypes[0], strides[0], x, n);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
