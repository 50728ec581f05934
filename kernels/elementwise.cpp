// Elementwise kernels. One walk for all: sizes are merged where strides allow, the innermost run is
// cut into chunks that stay in the first-level cache, each chunk is converted to the compute type
// (unless it already is), computed by a loop that vectorises, and converted back.
#include "kernels/catalogue.h"
#include "kernels/convert.h"
#include "kernels/math.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

constexpr int64_t chunk = 512;          // 4 KB of doubles per operand
constexpr int64_t parallel_chunks = 32;  // fewer are not worth waking threads
constexpr int max_operands = 5;

// Operands of the same shape, walked together; operand 0 is the output.
struct Walk {
  int operands = 0;
  int ndim = 0;
  int64_t shape[max_dims];
  int64_t strides[max_operands][max_dims];
  char* data[max_operands];
  DType dtypes[max_operands];
};

bool mergeable(const Walk& walk, int outer, int inner) {
  for (int k = 0; k < walk.operands; ++k)
    if (walk.strides[k][outer] != walk.strides[k][inner] * walk.shape[inner]) return false;
  return true;
}

// Drops sizes of 1 and merges neighbours that are dense in every operand.
Walk walk_over(const View* const* views, int operands) {
  Walk walk;
  walk.operands = operands;
  for (int k = 0; k < operands; ++k) {
    walk.data[k] = views[k]->as<char>();
    walk.dtypes[k] = views[k]->dtype;
  }
  const View& first = *views[0];
  for (int i = 0; i < first.ndim; ++i) {
    if (first.shape[i] == 1) continue;
    const int at = walk.ndim;
    walk.shape[at] = first.shape[i];
    for (int k = 0; k < operands; ++k) walk.strides[k][at] = views[k]->strides[i];
    if (at > 0 && mergeable(walk, at - 1, at)) {
      walk.shape[at - 1] *= walk.shape[at];
      for (int k = 0; k < operands; ++k) walk.strides[k][at - 1] = walk.strides[k][at];
    } else {
      ++walk.ndim;
    }
  }
  if (walk.ndim == 0) {
    walk.ndim = 1;
    walk.shape[0] = 1;
    for (int k = 0; k < operands; ++k) walk.strides[k][0] = 1;
  }
  return walk;
}

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
void map(const View* const* views, int inputs, Loop<C> loop) {
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

// Calls f with a value of the compute type of a dtype.
template <class F>
void with_compute_type(DType dtype, F&& f) {
  if (dtype == DType::f64) return f(double{});
  if (is_floating(dtype)) return f(float{});
  return f(int64_t{});
}

// The compute type that holds both (bool and integers with floating: the floating one).
DType wider(DType a, DType b) {
  if (a == DType::f64 || b == DType::f64) return DType::f64;
  return is_floating(a) ? a : b;
}

template <class C>
void unary_as(UnaryOp op, const View* const* views) {
  switch (op) {
#define UNARY(name, value, derivative)                              \
  case UnaryOp::name:                                               \
    return map<C>(views, 1, [](C* y, const C* const* in, int64_t n) { \
      using T = C;                                                  \
      const C* p = in[0];                                           \
      for (int64_t i = 0; i < n; ++i) {                             \
        const T x = p[i];                                           \
        y[i] = T(value);                                            \
      }                                                             \
    });
#include "kernels/elementwise.def"
  }
}

template <class C>
void unary_backward_as(UnaryOp op, const View* const* views) {
  switch (op) {
#define UNARY(name, value, derivative)                                \
  case UnaryOp::name:                                                 \
    return map<C>(views, 3, [](C* dx, const C* const* in, int64_t n) { \
      using T = C;                                                    \
      const C *pg = in[0], *px = in[1], *py = in[2];                  \
      for (int64_t i = 0; i < n; ++i) {                               \
        const T g = pg[i];                                            \
        [[maybe_unused]] const T x = px[i], y = py[i];                \
        dx[i] = T(derivative);                                        \
      }                                                               \
    });
#include "kernels/elementwise.def"
  }
}

template <class C>
void binary_as(BinaryOp op, const View* const* views) {
  switch (op) {
#define BINARY(name, value, da, db)                                 \
  case BinaryOp::name:                                              \
    return map<C>(views, 2, [](C* y, const C* const* in, int64_t n) { \
      using T = C;                                                  \
      const C *pa = in[0], *pb = in[1];                             \
      for (int64_t i = 0; i < n; ++i) {                             \
        const T a = pa[i], b = pb[i];                               \
        y[i] = T(value);                                            \
      }                                                             \
    });
#include "kernels/elementwise.def"
  }
}

template <class C>
void binary_backward_as(BinaryOp op, int which, const View* const* views) {
  switch (op) {
#define BINARY_LOOP(derivative)                                                \
  [](C* d, const C* const* in, int64_t n) {                                    \
    using T = C;                                                               \
    const C *pg = in[0], *pa = in[1], *pb = in[2], *py = in[3];                \
    for (int64_t i = 0; i < n; ++i) {                                          \
      [[maybe_unused]] const T g = pg[i], a = pa[i], b = pb[i], y = py[i];     \
      d[i] = T(derivative);                                                    \
    }                                                                          \
  }
#define BINARY(name, value, da, db) \
  case BinaryOp::name:              \
    return which == 0 ? map<C>(views, 4, BINARY_LOOP(da)) : map<C>(views, 4, BINARY_LOOP(db));
#include "kernels/elementwise.def"
#undef BINARY_LOOP
  }
}

template <class C>
void compare_as(CompareOp op, const View* const* views) {
  switch (op) {
#define COMPARE(name, truth)                                        \
  case CompareOp::name:                                             \
    return map<C>(views, 2, [](C* y, const C* const* in, int64_t n) { \
      const C *pa = in[0], *pb = in[1];                             \
      for (int64_t i = 0; i < n; ++i) {                             \
        const C a = pa[i], b = pb[i];                               \
        y[i] = (truth) ? C(1) : C(0);                               \
      }                                                             \
    });
#include "kernels/elementwise.def"
  }
}

// A view of one value, broadcast to the shape of `like`.
View broadcast_value(const View& like, DType dtype, void* value) {
  View view = like;
  view.data = value;
  view.dtype = dtype;
  for (int i = 0; i < view.ndim; ++i) view.strides[i] = 0;
  return view;
}

}  // namespace

void unary(UnaryOp op, View y, View x) {
  const View* views[] = {&y, &x};
  with_compute_type(x.dtype, [&](auto c) { unary_as<decltype(c)>(op, views); });
}

void unary_backward(UnaryOp op, View dx, View g, View x, View y) {
  const View* views[] = {&dx, &g, &x, &y};
  with_compute_type(wider(dx.dtype, g.dtype), [&](auto c) { unary_backward_as<decltype(c)>(op, views); });
}

void binary(BinaryOp op, View y, View a, View b) {
  const View* views[] = {&y, &a, &b};
  with_compute_type(wider(y.dtype, wider(a.dtype, b.dtype)),
                    [&](auto c) { binary_as<decltype(c)>(op, views); });
}

void binary_scalar(BinaryOp op, View y, View a, double scalar, bool scalar_first) {
  // An integer tensor keeps integer arithmetic, so its scalar is an integer too.
  int64_t integer = static_cast<int64_t>(scalar);
  const bool floating = is_floating(y.dtype);
  const View b = floating ? broadcast_value(a, DType::f64, &scalar)
                          : broadcast_value(a, DType::i64, &integer);
  const View* views[] = {&y, scalar_first ? &b : &a, scalar_first ? &a : &b};
  with_compute_type(wider(y.dtype, a.dtype), [&](auto c) { binary_as<decltype(c)>(op, views); });
}

void binary_backward(BinaryOp op, int which, View d, View g, View a, View b, View y) {
  const View* views[] = {&d, &g, &a, &b, &y};
  with_compute_type(wider(d.dtype, g.dtype), [&](auto c) { binary_backward_as<decltype(c)>(op, which, views); });
}

void compare(CompareOp op, View truth, View a, View b) {
  const View* views[] = {&truth, &a, &b};
  with_compute_type(wider(a.dtype, b.dtype), [&](auto c) { compare_as<decltype(c)>(op, views); });
}

void where(View y, View condition, View a, View b) {
  const View* views[] = {&y, &condition, &a, &b};
  with_compute_type(y.dtype, [&](auto c) {
    using C = decltype(c);
    map<C>(views, 3, [](C* out, const C* const* in, int64_t n) {
      for (int64_t i = 0; i < n; ++i) out[i] = in[0][i] != C(0) ? in[1][i] : in[2][i];
    });
  });
}

void copy(View out, View in) {
  const View* views[] = {&out, &in};
  const DType compute = is_floating(in.dtype) ? wider(in.dtype, out.dtype) : in.dtype;
  with_compute_type(compute, [&](auto c) {
    using C = decltype(c);
    const Walk walk = walk_over(views, 2);
    for_each_chunk(walk, [&](char** p, const int64_t* strides, int64_t n) {
      Buffer<C> buffer;
      const bool direct = strides[0] == 1 && walk.dtypes[0] == DTypeOf<C>::value;
      if (direct) return load_run(reinterpret_cast<C*>(p[0]), p[1], walk.dtypes[1], strides[1], n);
      const C* x = read_run<C>(p[1], walk.dtypes[1], strides[1], n, buffer);
      store_run(p[0], walk.dtypes[0], strides[0], x, n);
    });
  });
}

void fill(View out, double value) {
  int64_t integer = static_cast<int64_t>(value);
  const bool floating = is_floating(out.dtype);
  copy(out, floating ? broadcast_value(out, DType::f64, &value)
                     : broadcast_value(out, DType::i64, &integer));
}

void accumulate(View out, View in) {
  const View* views[] = {&out, &out, &in};
  with_compute_type(wider(out.dtype, in.dtype), [&](auto c) {
    using C = decltype(c);
    map<C>(views, 2, [](C* y, const C* const* x, int64_t n) {
      for (int64_t i = 0; i < n; ++i) y[i] = x[0][i] + x[1][i];
    });
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
