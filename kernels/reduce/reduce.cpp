// Sums, means, extremes, any and all over any dimensions of a strided tensor.
//
// The reduced and the kept dimensions are iterated as two index spaces. Sums add in a fixed order
// (16 interleaved partial sums per run of the innermost reduced dimension, runs added in order), so
// the bits do not depend on the number of threads. Floating sums accumulate in double.
#include "kernels/catalogue.h"
#include "kernels/numbers/convert.h"
#include "kernels/numbers/math.h"
#include "kernels/walks/space.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

constexpr int64_t run = 1024;
constexpr int lanes = 16;

template <class C>
double sum_run(const C* x, int64_t n) {
  double partial[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes)
    for (int k = 0; k < lanes; ++k) partial[k] += double(x[i + k]);
  for (; i < n; ++i) partial[i % lanes] += double(x[i]);
  double total = 0;
  for (int k = 0; k < lanes; ++k) total += partial[k];
  return total;
}

// Reduces n values into an accumulator that starts as `first` says.
template <class C>
struct Accumulator {
  ReduceOp op;
  double sum = 0;
  int64_t integer_sum = 0;
  C extreme = C(0);
  bool any = false, all = true, empty = true;

  void add(const C* x, int64_t n) {
    if (n == 0) return;
    switch (op) {
      case ReduceOp::sum:
      case ReduceOp::mean:
        if constexpr (__is_same(C, int64_t)) {
          for (int64_t i = 0; i < n; ++i) integer_sum += x[i];
        } else {
          sum += sum_run(x, n);
        }
        break;
      case ReduceOp::amax:
        if (empty) extreme = x[0];
        for (int64_t i = 0; i < n; ++i) extreme = maximum_(extreme, x[i]);
        break;
      case ReduceOp::amin:
        if (empty) extreme = x[0];
        for (int64_t i = 0; i < n; ++i) extreme = minimum_(extreme, x[i]);
        break;
      case ReduceOp::any:
        for (int64_t i = 0; i < n; ++i) any |= x[i] != C(0);
        break;
      case ReduceOp::all:
        for (int64_t i = 0; i < n; ++i) all &= x[i] != C(0);
        break;
    }
    empty = false;
  }

  void write(char* out, DType dtype, int64_t count) const {
    if (op == ReduceOp::amax || op == ReduceOp::amin) return store_run(out, dtype, 1, &extreme, 1);
    if constexpr (__is_same(C, int64_t)) {
      if (op == ReduceOp::sum) return store_run(out, dtype, 1, &integer_sum, 1);
    }
    double value = sum + double(integer_sum);
    if (op == ReduceOp::mean) value /= double(count);
    if (op == ReduceOp::any) value = any;
    if (op == ReduceOp::all) value = all;
    store_run(out, dtype, 1, &value, 1);
  }
};

template <class C>
void reduce_as(ReduceOp op, const View& out, const View& x, const Space& kept,
               const Space& reduced) {
  const int64_t outputs = kept.size(), count = reduced.size();
  const int last = reduced.ndim - 1;
  const int64_t inner = last >= 0 ? reduced.shape[last] : 1;
  const int64_t stride = last >= 0 ? reduced.strides[last] : 1;
  Space outer = reduced;
  if (last >= 0) outer.ndim = last;
  const int64_t outer_count = inner == 0 ? 0 : outer.size();
  for_each_range(outputs, grain_for(count), [&](int64_t begin, int64_t end) {
    alignas(64) C buffer[run];
    for (int64_t o = begin; o < end; ++o) {
      Accumulator<C> accumulator{op};
      for (int64_t r = 0; r < outer_count; ++r) {
        const char* base = x.as<char>() + (kept.offset(o) + outer.offset(r)) * size_of(x.dtype);
        for (int64_t i = 0; i < inner; i += run) {
          const int64_t n = i + run < inner ? run : inner - i;
          load_run(buffer, base + i * stride * size_of(x.dtype), x.dtype, stride, n);
          accumulator.add(buffer, n);
        }
      }
      accumulator.write(out.as<char>() + o * size_of(out.dtype), out.dtype, count);
    }
  });
}

// Sum over the outer dimensions of a dense matrix: columns are summed in parallel lanes, which
// reads memory in order; blocks of rows are added in order.
void sum_columns(ReduceOp op, const View& out, const View& x, int64_t rows, int64_t columns) {
  constexpr int64_t width = 64;
  for_each_range(columns, width, [&](int64_t begin, int64_t end) {
    alignas(64) double total[width] = {};
    alignas(64) float row[width];
    const int64_t n = end - begin;
    for (int64_t r = 0; r < rows; ++r) {
      const float* p = read_row(x, r * columns + begin, n, row);
      for (int64_t i = 0; i < n; ++i) total[i] += double(p[i]);
    }
    for (int64_t i = 0; op == ReduceOp::mean && i < n; ++i) total[i] /= double(rows);
    store_run(out.as<char>() + begin * size_of(out.dtype), out.dtype, 1, total, n);
  });
}

bool is_column_sum(ReduceOp op, const View& out, const View& x) {
  if (op != ReduceOp::sum && op != ReduceOp::mean) return false;
  if (!x.contiguous() || !is_floating(x.dtype) || x.dtype == DType::f64) return false;
  bool kept_seen = false;  // reduced dimensions first, kept ones after
  for (int i = 0; i < x.ndim; ++i) {
    if (x.shape[i] == 1) continue;
    const bool kept = out.shape[i] == x.shape[i];
    if (kept_seen && !kept) return false;
    kept_seen |= kept;
  }
  return kept_seen && out.size() > 1;
}

template <class C>
void argmax_as(const View& index, const View& x, int dim, const Space& kept) {
  const int64_t n = x.shape[dim], stride = x.strides[dim];
  for_each_range(kept.size(), grain_for(n), [&](int64_t begin, int64_t end) {
    alignas(64) C buffer[run];
    for (int64_t o = begin; o < end; ++o) {
      const char* base = x.as<char>() + kept.offset(o) * size_of(x.dtype);
      int64_t best = 0;
      C largest = C(0);
      for (int64_t i = 0; i < n; i += run) {
        const int64_t length = i + run < n ? run : n - i;
        load_run(buffer, base + i * stride * size_of(x.dtype), x.dtype, stride, length);
        for (int64_t k = 0; k < length; ++k) {
          const bool nan_first = buffer[k] != buffer[k] && largest == largest;
          if (i + k == 0 || buffer[k] > largest || nan_first) {
            largest = buffer[k];
            best = i + k;
          }
        }
      }
      index.as<int64_t>()[o] = best;
    }
  });
}

}  // namespace

void reduce(ReduceOp op, View out, View x) {
  if (is_column_sum(op, out, x)) return sum_columns(op, out, x, x.size() / out.size(), out.size());
  Space kept, reduced;
  for (int i = 0; i < x.ndim; ++i)
    (out.shape[i] == x.shape[i] ? kept : reduced).add(x.shape[i], x.strides[i]);
  if (x.dtype == DType::f64) return reduce_as<double>(op, out, x, kept, reduced);
  if (is_floating(x.dtype)) return reduce_as<float>(op, out, x, kept, reduced);
  reduce_as<int64_t>(op, out, x, kept, reduced);
}

void argmax(View index, View x, int dim) {
  Space kept;
  for (int i = 0; i < x.ndim; ++i)
    if (i != dim) kept.add(x.shape[i], x.strides[i]);
  if (x.dtype == DType::f64) return argmax_as<double>(index, x, dim, kept);
  if (is_floating(x.dtype)) return argmax_as<float>(index, x, dim, kept);
  argmax_as<int64_t>(index, x, dim, kept);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
