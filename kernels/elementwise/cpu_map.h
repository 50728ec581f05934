// Elementwise kernels on the CPU. The innermost run is cut into chunks that stay in the first-level
// cache. Each chunk is converted to the compute type (unless it already has it), computed by a loop
// that vectorises, and converted back.
#pragma once

#include "kernels/numbers/convert.h"
#include "kernels/elementwise/elementwise_math.h"
#include "kernels/walks/walk.h"

namespace booster::kernels::BOOSTER_VARIANT {

inline constexpr int64_t chunk = 512;           // 4 KB of doubles per operand
inline constexpr int64_t parallel_chunks = 32;  // with fewer, waking threads is too slow

// The positions of the operands at the start of a run. Runs are visited in order, so that only the
// first run of a thread's range needs divisions.
class Run {
 public:
  Run(const Walk& walk, int64_t run) : walk_(walk), last_(walk.ndim - 1) {
    for (int k = 0; k < walk.operands; ++k) data_[k] = walk.data[k];
    for (int i = last_ - 1; i >= 0; --i) {
      index_[i] = run % walk.shape[i];
      run /= walk.shape[i];
      advance(i, index_[i]);
    }
  }
  void next() {
    for (int i = last_ - 1; i >= 0; --i) {
      if (++index_[i] < walk_.shape[i]) return advance(i, 1);
      index_[i] = 0;
      advance(i, 1 - walk_.shape[i]);
    }
  }
  char* element(int operand, int64_t i) const { return data_[operand] + i * step(operand, last_); }

 private:
  int64_t step(int k, int dim) const { return walk_.strides[k][dim] * size_of(walk_.dtypes[k]); }
  void advance(int dim, int64_t by) {
    for (int k = 0; k < walk_.operands; ++k) data_[k] += by * step(k, dim);
  }

  const Walk& walk_;
  int last_;
  int64_t index_[max_dims];
  char* data_[max_operands];
};

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
  int64_t strides[max_operands];
  for (int k = 0; k < walk.operands; ++k) strides[k] = walk.strides[k][last];
  const auto visit_chunks = [&](int64_t begin, int64_t end) {
    Run run(walk, begin / chunks_per_run);
    int64_t part = begin % chunks_per_run;
    for (int64_t i = begin; i < end; ++i) {
      char* pointers[max_operands];
      for (int k = 0; k < walk.operands; ++k) pointers[k] = run.element(k, part * chunk);
      body(pointers, strides, part + 1 < chunks_per_run ? chunk : inner - part * chunk);
      if (++part < chunks_per_run) continue;
      part = 0;
      run.next();
    }
  };
  if (total < parallel_chunks) {
    visit_chunks(0, total);
  } else {
    const int64_t chunks_per_range = 16 * (inner < chunk ? chunk / inner : 1);
    for_each_range(total, chunks_per_range, visit_chunks);
  }
}

template <class C>
struct alignas(64) Buffer {
  C values[chunk];
};

// Returns the operand as a dense run of C.
template <class C>
const C* read_run(const char* p, DType dtype, int64_t stride, int64_t n, Buffer<C>& buffer) {
  if (stride == 1 && dtype == DTypeOf<C>::value) return reinterpret_cast<const C*>(p);
  load_run(buffer.values, p, dtype, stride, n);
  return buffer.values;
}

// Returns the first input before operand `k` with the same elements in this chunk; 0 if there is
// none.
inline int equal_operand(const Walk& walk, char* const* p, int k) {
  const int last = walk.ndim - 1;
  for (int i = 1; i < k; ++i)
    if (p[i] == p[k] && walk.strides[i][last] == walk.strides[k][last] &&
        walk.dtypes[i] == walk.dtypes[k])
      return i;
  return 0;
}

// Loop of one op over a dense chunk: y[i] from x[0][i], x[1][i], ...
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
    for (int k = 0; k < inputs; ++k) {
      const int same = equal_operand(walk, p, k + 1);  // a placeholder, for example
      x[k] = same > 0 ? x[same - 1]
                      : read_run<C>(p[k + 1], walk.dtypes[k + 1], strides[k + 1], n, in[k]);
    }
    const bool direct = strides[0] == 1 && walk.dtypes[0] == DTypeOf<C>::value;
    C* y = direct ? reinterpret_cast<C*>(p[0]) : out.values;
    loop(y, x, n);
    if (!direct) store_run(p[0], walk.dtypes[0], strides[0], y, n);
  });
}

// Computes views[0] = f(views[1], ...) of every element, in compute type C.
template <class C, int inputs, class F>
void map(const View* const* views, F) {
  map_chunks<C>(views, inputs, [](C* y, const C* const* in, int64_t n) {
    const C* p[inputs];
    for (int k = 0; k < inputs; ++k) p[k] = in[k];
    for (int64_t i = 0; i < n; ++i) y[i] = apply<inputs>(F(), [&](int k) { return p[k][i]; });
  });
}

// Copies out = in, of one dtype, whose elements have the size of T.
template <class T>
void copy_numbers(const View* const* views) {
  for_each_chunk(walk_over(views, 2), [](char** p, const int64_t* strides, int64_t n) {
    T* to = reinterpret_cast<T*>(p[0]);
    const T* from = reinterpret_cast<const T*>(p[1]);
    if (strides[0] == 1 && strides[1] == 1)
      __builtin_memmove(to, from, size_t(n) * sizeof(T));
    else
      for (int64_t i = 0; i < n; ++i) to[i * strides[0]] = from[i * strides[1]];
  });
}

inline void copy_same_dtype(const View* const* views) {
  switch (size_of(views[0]->dtype)) {
    case 1: return copy_numbers<uint8_t>(views);
    case 2: return copy_numbers<uint16_t>(views);
    case 4: return copy_numbers<uint32_t>(views);
    default: return copy_numbers<uint64_t>(views);
  }
}

// Converts out = in from any dtype to any other in compute type C, directly into out if it has that
// type.
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
