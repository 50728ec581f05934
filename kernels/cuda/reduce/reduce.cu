// Sums, means, extremes, any, all and argmax over any dimensions of a strided tensor. Floating sums
// use double, as on the CPU. If the reduced elements are dense, threads read them in quads.
#include "kernels/catalogue.h"
#include "kernels/cuda/element_group.cuh"
#include "kernels/cuda/tiled_fold.cuh"
#include "kernels/numbers/convert.h"
#include "kernels/numbers/math.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

// Calls f with a typed null pointer that stands for a dtype whose compute type is C.
template <class C, class F>
__device__ void visit_computed_in(DType dtype, F&& f) {
  if constexpr (__is_same(C, double)) {
    f(static_cast<double*>(nullptr));
  } else if constexpr (__is_same(C, int64_t)) {
    switch (dtype) {
      case DType::i32: return f(static_cast<int32_t*>(nullptr));
      case DType::u8: return f(static_cast<uint8_t*>(nullptr));
      case DType::boolean: return f(static_cast<bool*>(nullptr));
      default: return f(static_cast<int64_t*>(nullptr));
    }
  } else {
    switch (dtype) {
      case DType::f16: return f(static_cast<f16*>(nullptr));
      case DType::bf16: return f(static_cast<bf16*>(nullptr));
      default: return f(static_cast<float*>(nullptr));
    }
  }
}

template <class C>
struct SumOf {
  using type = double;
};
template <>
struct SumOf<int64_t> {
  using type = int64_t;
};

// The sum of the values, or the number of zeros, or of nonzeros. One fold covers all three, and one
// covers extremes and their places, because nvcc takes seconds for each fold.
template <class C>
struct Sum {
  using Value = typename SumOf<C>::type;
  enum Of { values, squares, zeros, others } what;
  KERNEL_FN Value identity() const { return 0; }
  KERNEL_FN Value of(C x, int64_t) const {
    if (what == squares) return Value(x) * Value(x);
    return what == values ? Value(x) : Value((x == C(0)) == (what == zeros));
  }
  KERNEL_FN Value combine(Value a, Value b) const { return a + b; }
};

template <class C>
struct Placed {
  C value;
  int64_t place;  // -1: none
};

// The first of the largest; a nan is larger than all. With `smallest` it uses the negatives (for
// integers the complements, which do not overflow).
template <class C>
struct FirstLargest {
  using Value = Placed<C>;
  bool smallest;
  KERNEL_FN C flip(C x) const {
    if constexpr (__is_same(C, int64_t))
      return smallest ? ~x : x;
    else
      return smallest ? -x : x;
  }
  KERNEL_FN Value identity() const { return {C(0), -1}; }
  KERNEL_FN Value of(C x, int64_t place) const { return {flip(x), place}; }
  KERNEL_FN static bool larger(C a, C b) { return a > b || (a != a && b == b); }
  KERNEL_FN Value combine(Value a, Value b) const {
    const bool equal = !larger(a.value, b.value) && !larger(b.value, a.value);
    const bool first = equal ? a.place < b.place : larger(a.value, b.value);
    return b.place < 0 || (a.place >= 0 && first) ? a : b;
  }
};

// Folds a tensor's elements at positions i, i + step, ... of the reduced dimensions; of dense ones
// at quads i, i + step, ...
template <class C>
struct TensorRun {
  const void* data;
  DType dtype;
  Space kept, reduced;
  int64_t count;  // of the elements of one output
  bool is_dense;
  // Not for f64 and integers, which are rare, because nvcc takes half a minute to compile them.
  static constexpr bool has_quads = __is_same(C, float);

  template <class Fold>
  __device__ typename Fold::Value operator()(const Fold& fold, int64_t output, int64_t i,
                                             int64_t end, int64_t step) const {
    auto value = fold.identity();
    visit_computed_in<C>(dtype, [&]<class T>(T*) {
      const auto* p = static_cast<const T*>(data) + kept.offset(output);
      if constexpr (has_quads)
        if (is_dense) return void(value = fold_quads(fold, p, i, end, step));
      value = fold_elements(fold, p, i, end, step);
    });
    return value;
  }
  // What positions count.
  int64_t positions() const { return is_dense ? (count + quad - 1) / quad : count; }

 private:
  template <class Fold, class T>
  __device__ typename Fold::Value fold_elements(const Fold& fold, const T* p, int64_t i,
                                                int64_t end, int64_t step) const {
    constexpr int batch = 4;  // reads in flight together
    auto value = fold.identity();
    Cursor cursor(reduced, i);
    for (; i + (batch - 1) * step < end; i += batch * step) {
      C x[batch];
      for (int k = 0; k < batch; ++k, cursor.advance(step)) x[k] = load<C>(p + cursor.offset());
      for (int k = 0; k < batch; ++k) value = fold.combine(value, fold.of(x[k], i + k * step));
    }
    for (; i < end; i += step, cursor.advance(step))
      value = fold.combine(value, fold.of(load<C>(p + cursor.offset()), i));
    return value;
  }
  template <class Fold, class T>
  __device__ typename Fold::Value fold_quads(const Fold& fold, const T* p, int64_t i, int64_t end,
                                             int64_t step) const {
    auto value = fold.identity();
    for (; i < end; i += step) {
      const int64_t left = count - i * quad;
      const ElementGroup group = {i * quad, left < quad ? static_cast<int>(left) : quad};
      T x[quad] = {};
      read_group(x, p, group);
#pragma unroll
      for (int j = 0; j < quad; ++j)
        if (j < group.count) value = fold.combine(value, fold.of(load<C>(x + j), group.first + j));
    }
    return value;
  }
};

template <class C>
struct Reduction {
  Tiling tiling;
  TensorRun<C> run;
};

template <class C, class IsKept>
Reduction<C> reduction_of(const View& x, IsKept&& is_kept) {
  TensorRun<C> run = {
      .data = x.data, .dtype = x.dtype, .kept = {}, .reduced = {}, .count = 1, .is_dense = false};
  for (int d = 0; d < x.ndim; ++d)
    (is_kept(d) ? run.kept : run.reduced).add(x.shape[d], x.strides[d]);
  run.count = run.reduced.size();
  run.is_dense = run.has_quads && run.reduced.ndim == 1 && run.reduced.last_stride() == 1;
  const bool outputs_closer = run.kept.last_stride() < run.reduced.last_stride();
  return {tiling_of(run.kept.size(), run.positions(), outputs_closer && !run.is_dense), run};
}

template <class C>
typename Sum<C>::Of terms_of(ReduceOp op) {
  switch (op) {
    case ReduceOp::any: return Sum<C>::others;
    case ReduceOp::all: return Sum<C>::zeros;
    case ReduceOp::squares: return Sum<C>::squares;
    default: return Sum<C>::values;
  }
}

template <class C>
void sum_as(ReduceOp op, const Reduction<C>& reduction, const View& out) {
  const int64_t count = reduction.run.count;
  const Sum<C> fold = {terms_of<C>(op)};
  const auto finish = [=] ON_DEVICE(int64_t o, typename Sum<C>::Value sum) {
    if (op == ReduceOp::sum || op == ReduceOp::squares)
      return store_any(out.data, out.dtype, o, sum);
    double value = double(sum) / double(count);
    if (op == ReduceOp::any) value = sum != 0;
    if (op == ReduceOp::all) value = sum == 0;
    store_any(out.data, out.dtype, o, value);
  };
  fold_all(reduction.tiling, fold, reduction.run, finish);
}

// Computes the extreme itself, or (argmax) its place; 0 without elements.
template <class C>
void extreme_as(const Reduction<C>& reduction, const View& out, bool smallest, bool place) {
  const FirstLargest<C> fold = {smallest};
  const auto finish = [=] ON_DEVICE(int64_t o, Placed<C> best) {
    const bool none = best.place < 0;
    if (place)
      static_cast<int64_t*>(out.data)[o] = none ? 0 : best.place;
    else
      store_any(out.data, out.dtype, o, none ? C(0) : fold.flip(best.value));
  };
  fold_all(reduction.tiling, fold, reduction.run, finish);
}

template <class C>
void reduce_as(ReduceOp op, const View& out, const View& x) {
  const Reduction<C> reduction =
      reduction_of<C>(x, [&](int d) { return out.shape[d] == x.shape[d]; });
  if (op == ReduceOp::amax || op == ReduceOp::amin)
    return extreme_as(reduction, out, op == ReduceOp::amin, false);
  sum_as(op, reduction, out);
}

template <class C>
void argmax_as(const View& index, const View& x, int dim, bool smallest) {
  extreme_as(reduction_of<C>(x, [=](int d) { return d != dim; }), index, smallest, true);
}

}  // namespace

void reduce(ReduceOp op, View out, View x) {
  if (x.dtype == DType::f64) return reduce_as<double>(op, out, x);
  if (is_floating(x.dtype)) return reduce_as<float>(op, out, x);
  reduce_as<int64_t>(op, out, x);
}

void argmax(View index, View x, int dim, bool smallest) {
  if (x.dtype == DType::f64) return argmax_as<double>(index, x, dim, smallest);
  if (is_floating(x.dtype)) return argmax_as<float>(index, x, dim, smallest);
  argmax_as<int64_t>(index, x, dim, smallest);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
