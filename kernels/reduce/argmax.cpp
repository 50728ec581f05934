// The first of the largest (or smallest) numbers along a dimension of a strided tensor; a nan
// counts as larger and smaller than all others.
#include "kernels/catalogue.h"
#include "kernels/launch/workspace.h"
#include "kernels/reduce/folds.h"
#include "kernels/reduce/plan.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

thread_local Scratch value_buffer, place_buffer;

template <class C, bool smallest>
struct Order {
  using Number = C;
  using Fold = Extreme<C, !smallest>;
  KERNEL_FN static bool is_before(C a, C b) {
    return (smallest ? a < b : a > b) || (a != a && b == b);
  }
};

// A task's results so far, for each of its columns.
template <class C>
struct Found {
  C* values;
  int64_t* places;

  void take(int64_t c, C value, int64_t place) const {
    values[c] = value;
    places[c] = place;
  }
};

// Searches one column, whose numbers from position `first` on are x.
template <class Order, class C>
void search_run(const Found<C>& found, const C* x, int64_t n, int64_t first) {
  Lanes<typename Order::Fold, 32> lanes(1);
  lanes.add(x, n);
  C best;
  lanes.finish(&best, 1);
  if (first > 0 && !Order::is_before(best, found.values[0])) return;
  int64_t i = 0;
  while (x[i] != best && (x[i] == x[i] || best == best)) ++i;
  found.take(0, best, first + i);
}

// Places in a task, as wide as its numbers, so that vectors hold equally many of both.
template <class C>
struct PlaceType {
  using type = int64_t;
};
template <>
struct PlaceType<float> {
  using type = int32_t;
};

// Searches the columns' numbers at one position.
template <class Order, class C, class Place>
void search_row(C* values, Place* places, const C* x, int64_t n, Place place) {
  for (int64_t c = 0; c < n; ++c) {
    const bool is_new = Order::is_before(x[c], values[c]);
    values[c] = is_new ? x[c] : values[c];
    places[c] = is_new ? place : places[c];
  }
}

template <class Order>
void search_columns(const Found<typename Order::Number>& found, const ReductionPlan& plan,
                    const View& x, const ReductionPlan::Task& task) {
  using C = typename Order::Number;
  using Place = typename PlaceType<C>::type;
  alignas(64) C buffer[ReductionPlan::most_columns];
  alignas(64) Place places[ReductionPlan::most_columns];
  const int64_t n = task.columns;
  for (int64_t c = 0; c < n; ++c) {
    found.values[c] = Order::Fold::identity;
    places[c] = 0;
  }
  Place place = 0;
  plan.for_each_segment(task, [&](int64_t offset, int64_t rows) {
    for (int64_t r = 0; r < rows; ++r, ++place) {
      const C* row = read(x, offset + r * plan.rows.stride, plan.columns.stride, n, buffer);
      search_row<Order>(found.values, places, row, n, place);
    }
  });
  for (int64_t c = 0; c < n; ++c) found.places[c] = task.begin + places[c];
}

template <class Order>
void search_task(const Found<typename Order::Number>& found, const ReductionPlan& plan,
                 const View& x, const ReductionPlan::Task& task) {
  if (task.columns > 1 || plan.count <= run / 64)
    return search_columns<Order>(found, plan, x, task);
  using C = typename Order::Number;
  alignas(64) C buffer[run];
  int64_t place = 0;
  plan.for_each_segment(task, [&](int64_t offset, int64_t rows) {
    for (int64_t r = 0; r < rows; r += run) {
      const int64_t n = rows - r < run ? rows - r : run, stride = plan.rows.stride;
      search_run<Order>(found, read(x, offset + r * stride, stride, n, buffer), n, place);
      place += n;
    }
  });
  found.places[0] += task.begin;
}

template <class Order>
void argmax_by(const View& index, const View& x, int dim) {
  using C = typename Order::Number;
  const ReductionPlan plan(index, x, [=](int d) { return d != dim; });
  const int64_t width = plan.tile, parts = plan.parts, all = plan.tiles * parts * width;
  const Found<C> found = {value_buffer.get<C>(all), place_buffer.get<int64_t>(all)};
  plan.for_each_task([&](int64_t tile, int64_t part) {
    const int64_t at = (tile * parts + part) * width;
    search_task<Order>({found.values + at, found.places + at}, plan, x, plan.task(tile, part));
  });
  for_each_range(plan.tiles, grain_for(width * parts), [&](int64_t begin, int64_t end) {
    for (int64_t tile = begin; tile < end; ++tile) {
      const ReductionPlan::Task task = plan.task(tile, 0);
      const Found<C> best = {found.values + tile * parts * width,
                             found.places + tile * parts * width};
      for (int64_t k = width; k < parts * width; ++k)
        if (Order::is_before(best.values[k], best.values[k % width]))
          best.take(k % width, best.values[k], best.places[k]);
      store_run(index.as<int64_t>() + task.first.out, DType::i64, plan.columns.out_stride,
                best.places, task.columns);
    }
  });
}

template <class C>
void argmax_as(const View& index, const View& x, int dim, bool smallest) {
  smallest ? argmax_by<Order<C, true>>(index, x, dim) : argmax_by<Order<C, false>>(index, x, dim);
}

}  // namespace

void argmax(View index, View x, int dim, bool smallest) {
  if (x.dtype == DType::f64) return argmax_as<double>(index, x, dim, smallest);
  if (is_floating(x.dtype)) return argmax_as<float>(index, x, dim, smallest);
  argmax_as<int64_t>(index, x, dim, smallest);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
