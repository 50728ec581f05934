// Sums, means, extremes, any and all over any dimensions of a strided tensor. Floating sums
// accumulate in double.
//
// Memory is read in order. If neighbours belong to different results, many results are accumulated
// in parallel; otherwise a result has many partial ones (lanes).
#include "kernels/catalogue.h"
#include "kernels/launch/workspace.h"
#include "kernels/numbers/vectors.h"
#include "kernels/reduce/folds.h"
#include "kernels/reduce/plan.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

thread_local Scratch partial_buffer;

// Computes the task's results if rows of all columns follow each other in memory.
template <class Fold, int lanes>
void fold_dense(typename Fold::Value* results, const ReductionPlan& plan, const View& x,
                const ReductionPlan::Task& task) {
  using C = typename Fold::Number;
  const auto columns = static_cast<int>(task.columns);
  Lanes<Fold, lanes> partial(columns);
  alignas(64) C buffer[run];
  const int64_t stride = columns > 1 ? 1 : plan.rows.stride;
  const int64_t step = run / partial.lanes() * partial.lanes();
  plan.for_each_segment(task, [&](int64_t offset, int64_t rows) {
    const int64_t n = rows * columns;
    for (int64_t i = 0; i < n; i += step) {
      const int64_t length = n - i < step ? n - i : step;
      partial.add(read(x, offset + i * stride, stride, length, buffer), length);
    }
  });
  partial.finish(results, columns);
}

// The extreme of numbers in vectors. A comparison with nan is false, so nans are noted separately.
template <class C, bool largest>
class ExtremeLanes {
 public:
  ExtremeLanes() {
    for (V& one : best_) one = V{} + Fold::identity;
  }
  void add(const C* x, int64_t n) {
    V best[at_once];  // may stay in registers
    Mask is_nan[at_once];
    for (int k = 0; k < at_once; ++k) best[k] = best_[k], is_nan[k] = is_nan_[k];
    const auto add_vector = [&](int k, V now) {
      best[k] = further(best[k], now);
      is_nan[k] |= now != now;
    };
    constexpr int width = lanes<C>;
    int64_t i = 0;
    for (; i + at_once * width <= n; i += at_once * width)
      for (int k = 0; k < at_once; ++k) add_vector(k, load_vector(x + i + k * width));
    for (; i + width <= n; i += width) add_vector(0, load_vector(x + i));
    for (int k = 0; k < at_once; ++k) best_[k] = best[k], is_nan_[k] = is_nan[k];
    for (; i < n; ++i) rest_ = Fold::combine(rest_, x[i]);
  }
  C finish() const {
    const V best = further(further(best_[0], best_[1]), further(best_[2], best_[3]));
    const Mask is_nan = is_nan_[0] | is_nan_[1] | is_nan_[2] | is_nan_[3];
    C result = best[0];
    bool has_nan = false;
    for (int lane = 0; lane < lanes<C>; ++lane) {
      result = (largest ? best[lane] > result : best[lane] < result) ? best[lane] : result;
      has_nan |= is_nan[lane] != 0;
    }
    return has_nan ? C(__builtin_nan("")) : Fold::combine(result, rest_);
  }

 private:
  using Fold = Extreme<C, largest>;
  using V = Vector<C>;
  using Mask = decltype(V{} != V{});
  static constexpr int at_once = 4;

  KERNEL_FN static V further(V a, V b) { return (largest ? b > a : b < a) ? b : a; }

  V best_[at_once];
  Mask is_nan_[at_once] = {};
  C rest_ = Fold::identity;
};

// Computes a task's result, an extreme of neighbours in memory.
template <class Fold>
void fold_line(typename Fold::Number* result, const ReductionPlan& plan, const View& x,
               const ReductionPlan::Task& task) {
  using C = typename Fold::Number;
  alignas(64) C buffer[run];
  ExtremeLanes<C, Fold::is_largest> extreme;
  plan.for_each_segment(task, [&](int64_t offset, int64_t rows) {
    const int64_t stride = plan.rows.stride;
    for (int64_t i = 0; i < rows; i += run) {
      const int64_t n = rows - i < run ? rows - i : run;
      extreme.add(read(x, offset + i * stride, stride, n, buffer), n);
    }
  });
  *result = extreme.finish();
}

// Computes the task's results if neighbours in memory belong to different ones: four rows at a
// time, each added in turn.
template <class Fold>
void fold_columns(typename Fold::Value* results, const ReductionPlan& plan, const View& x,
                  const ReductionPlan::Task& task) {
  using C = typename Fold::Number;
  constexpr int at_once = 4;
  const int64_t n = task.columns, stride = plan.columns.stride;
  for (int64_t c = 0; c < n; ++c) results[c] = Fold::identity;
  alignas(64) C buffer[at_once][ReductionPlan::most_columns];
  plan.for_each_segment(task, [&](int64_t offset, int64_t rows) {
    const auto row = [&](int64_t r) {
      return read(x, offset + r * plan.rows.stride, stride, n, buffer[r % at_once]);
    };
    int64_t r = 0;
    for (; r + at_once <= rows; r += at_once) {
      const C *a = row(r), *b = row(r + 1), *c = row(r + 2), *d = row(r + 3);
      for (int64_t i = 0; i < n; ++i) {
        const auto two = Fold::combine(Fold::combine(results[i], Fold::of(a[i])), Fold::of(b[i]));
        results[i] = Fold::combine(Fold::combine(two, Fold::of(c[i])), Fold::of(d[i]));
      }
    }
    for (; r < rows; ++r) {
      const C* a = row(r);
      for (int64_t i = 0; i < n; ++i) results[i] = Fold::combine(results[i], Fold::of(a[i]));
    }
  });
}

template <class Fold>
void fold_task(typename Fold::Value* results, const ReductionPlan& plan, const View& x,
               const ReductionPlan::Task& task) {
  if (!plan.is_dense) return fold_columns<Fold>(results, plan, x, task);
  if constexpr (is_floating_extreme<Fold>)
    if (task.columns == 1 && plan.count >= 512) return fold_line<Fold>(results, plan, x, task);
  if (task.columns == 1 && plan.count > 16) return fold_dense<Fold, 32>(results, plan, x, task);
  if (task.columns == 1) return fold_dense<Fold, 1>(results, plan, x, task);
  fold_dense<Fold, 0>(results, plan, x, task);
}

// Returns the stored result of a folded value.
template <class Value>
double result_of(ReduceOp op, Value folded, int64_t count) {
  if (op == ReduceOp::any) return folded != 0;
  if (op == ReduceOp::all) return folded == 0;
  return double(folded) / double(count);
}

template <class Value>
void store_results(ReduceOp op, const ReductionPlan& plan, const View& out,
                   const ReductionPlan::Task& task, const Value* folded) {
  char* to = out.as<char>() + task.first.out * size_of(out.dtype);
  const int64_t stride = plan.columns.out_stride;
  if (op == ReduceOp::sum || op == ReduceOp::amax || op == ReduceOp::amin)
    return store_run(to, out.dtype, stride, folded, task.columns);
  double results[ReductionPlan::most_columns];
  for (int64_t c = 0; c < task.columns; ++c) results[c] = result_of(op, folded[c], plan.count);
  store_run(to, out.dtype, stride, results, task.columns);
}

template <class Fold>
void reduce_by(ReduceOp op, const View& out, const View& x) {
  using Value = typename Fold::Value;
  const ReductionPlan plan(out, x, [&](int d) { return out.shape[d] == x.shape[d]; });
  if (plan.parts == 1)
    return plan.for_each_task([&](int64_t tile, int64_t) {
      alignas(64) Value values[ReductionPlan::most_columns];
      const ReductionPlan::Task task = plan.task(tile, 0);
      fold_task<Fold>(values, plan, x, task);
      store_results(op, plan, out, task, values);
    });
  const int64_t width = plan.tile, parts = plan.parts;
  Value* partial = partial_buffer.get<Value>(plan.tiles * parts * width);
  plan.for_each_task([&](int64_t tile, int64_t part) {
    fold_task<Fold>(partial + (tile * parts + part) * width, plan, x, plan.task(tile, part));
  });
  for_each_range(plan.tiles, grain_for(width * parts), [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) {
      Value* values = partial + tile * parts * width;
      for (int64_t part = 1; part < parts; ++part)
        for (int64_t c = 0; c < width; ++c)
          values[c] = Fold::combine(values[c], values[part * width + c]);
      store_results(op, plan, out, plan.task(tile, 0), values);
    }
  });
}

template <class C>
void reduce_as(ReduceOp op, const View& out, const View& x) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean: return reduce_by<Sum<C>>(op, out, x);
    case ReduceOp::amax: return reduce_by<Extreme<C, true>>(op, out, x);
    case ReduceOp::amin: return reduce_by<Extreme<C, false>>(op, out, x);
    case ReduceOp::any: return reduce_by<Count<C, false>>(op, out, x);
    case ReduceOp::all: return reduce_by<Count<C, true>>(op, out, x);
  }
}

}  // namespace

void reduce(ReduceOp op, View out, View x) {
  const bool is_extreme = op == ReduceOp::amax || op == ReduceOp::amin;
  if (is_extreme && x.size() == 0) op = ReduceOp::sum;  // an extreme without elements is 0
  if (x.dtype == DType::f64) return reduce_as<double>(op, out, x);
  if (is_floating(x.dtype)) return reduce_as<float>(op, out, x);
  reduce_as<int64_t>(op, out, x);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
