// Sums, means, extremes, any and all over any dimensions of a strided tensor. Floating sums
// accumulate in double.
//
// Memory is read in order. If neighbours belong to different results, many results are accumulated
// in parallel; otherwise a result has many partial ones (lanes).
#include "kernels/catalogue.h"
#include "kernels/launch/workspace.h"
#include "kernels/reduce/plan.h"
#include "kernels/reduce/row_folds.h"

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

// Folds `count` numbers along a line of x.
template <class Fold>
typename Fold::Value fold_line(const View& x, int64_t offset, int64_t stride, int64_t count) {
  using C = typename Fold::Number;
  alignas(64) C buffer[run];
  const auto add_to = [&](auto& folded) {
    for (int64_t i = 0; i < count; i += run) {
      const int64_t n = count - i < run ? count - i : run;
      folded.add(read(x, offset + i * stride, stride, n, buffer), n);
    }
  };
  if constexpr (RunFoldOf<Fold>::is_known) {
    typename RunFoldOf<Fold>::type folded;
    add_to(folded);
    return folded.finish();
  } else {
    Lanes<Fold, 32> folded(1);
    add_to(folded);
    typename Fold::Value value;
    folded.finish(&value, 1);
    return value;
  }
}

// Computes a task's result from neighbours in memory.
template <class Fold>
void fold_lines(typename Fold::Value* result, const ReductionPlan& plan, const View& x,
                const ReductionPlan::Task& task) {
  *result = Fold::identity;
  plan.for_each_segment(task, [&](int64_t offset, int64_t rows) {
    *result = Fold::combine(*result, fold_line<Fold>(x, offset, plan.rows.stride, rows));
  });
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
  if constexpr (RunFoldOf<Fold>::is_known)
    if (task.columns == 1 && plan.rows.size > 16) return fold_lines<Fold>(results, plan, x, task);
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

// Stores n results, at most ReductionPlan::most_columns, from an offset of `out` on.
template <class Value>
void store_values(ReduceOp op, const ReductionPlan& plan, const View& out, int64_t offset,
                  int64_t stride, Value* folded, int64_t n) {
  char* to = out.as<char>() + offset * size_of(out.dtype);
  const bool is_extreme = op == ReduceOp::amax || op == ReduceOp::amin;
  if (plan.repeats > 1 && !is_extreme)
    for (int64_t i = 0; i < n; ++i) folded[i] *= Value(plan.repeats);
  if (is_extreme || op == ReduceOp::sum || op == ReduceOp::squares)
    return store_run(to, out.dtype, stride, folded, n);
  const int64_t count = plan.count * plan.repeats;
  double results[ReductionPlan::most_columns];
  for (int64_t i = 0; i < n; ++i) results[i] = result_of(op, folded[i], count);
  store_run(to, out.dtype, stride, results, n);
}
template <class Value>
void store_results(ReduceOp op, const ReductionPlan& plan, const View& out,
                   const ReductionPlan::Task& task, Value* folded) {
  store_values(op, plan, out, task.first.out, plan.columns.out_stride, folded, task.columns);
}

// Returns true if each result is made of one line of x that one task reads.
bool has_own_lines(const ReductionPlan& plan) {
  return plan.columns.size == 1 && plan.parts == 1 && plan.reduced.ndim == 0 && plan.count > 16;
}

// Computes such results, many in a row, without a task for each.
template <class Fold>
void reduce_lines(ReduceOp op, const ReductionPlan& plan, const View& out, const View& x) {
  Axes around = plan.outer;
  const Line next = Line::innermost(around);
  constexpr int64_t most = ReductionPlan::most_columns;
  for_each_range(plan.outputs, grain_for(plan.count), [&](int64_t begin, int64_t end) {
    typename Fold::Value values[most];
    for (int64_t at = begin; at < end;) {
      const int64_t here = at % next.size, left = next.size - here;
      int64_t n = left < end - at ? left : end - at;
      if (n > most) n = most;
      const Axes::Offsets first = around.at(at / next.size);
      for (int64_t i = 0; i < n; ++i)
        values[i] = fold_line<Fold>(x, first.x + (here + i) * next.stride, plan.rows.stride,
                                    plan.count);
      store_values(op, plan, out, first.out + here * next.out_stride, next.out_stride, values, n);
      at += n;
    }
  });
}

template <class Fold>
void reduce_by(ReduceOp op, const View& out, const View& x) {
  using Value = typename Fold::Value;
  const ReductionPlan plan(out, x, [&](int d) { return out.shape[d] == x.shape[d]; });
  if (has_own_lines(plan)) return reduce_lines<Fold>(op, plan, out, x);
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
    case ReduceOp::squares: return reduce_by<Squares<C>>(op, out, x);
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
