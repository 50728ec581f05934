// The tasks of a reduction: which numbers of a strided tensor make each result, in memory order.
// They depend only on sizes and strides, so results have the same bits for any number of threads.
// For the CPU.
#pragma once

#include "kernels/launch/launch.h"

namespace booster::kernels::BOOSTER_VARIANT {

// Dimensions, those with large strides first; neighbours that are dense are merged. Broadcast ones
// (stride 0) come first: memory is not walked along them.
struct Axes {
  int ndim = 0;
  int64_t shape[max_dims], strides[max_dims], out_strides[max_dims];

  void insert(int64_t size, int64_t stride, int64_t out_stride) {
    if (size == 1) return;
    int at = ndim++;
    for (; at > 0 && distance(stride) > distance(strides[at - 1]); --at) move(at - 1, at);
    set(at, size, stride, out_stride);
  }
  void merge() {
    int last = 0;
    for (int i = 1; i < ndim; ++i) {
      if (strides[last] == strides[i] * shape[i] && out_strides[last] == out_strides[i] * shape[i])
        set(last, shape[last] * shape[i], strides[i], out_strides[i]);
      else
        move(i, ++last);
    }
    if (ndim > 0) ndim = last + 1;
  }
  int64_t size() const {
    int64_t n = 1;
    for (int i = 0; i < ndim; ++i) n *= shape[i];
    return n;
  }

  struct Offsets {
    int64_t x = 0, out = 0;
  };
  // Returns the offsets of position i of these dimensions.
  Offsets at(int64_t i) const {
    Offsets offsets;
    for (int d = ndim - 1; d >= 0; --d) {
      const int64_t rest = d > 0 ? i / shape[d] : 0, here = i - rest * shape[d];
      offsets.x += here * strides[d];
      offsets.out += here * out_strides[d];
      i = rest;
    }
    return offsets;
  }

 private:
  static int64_t distance(int64_t stride) { return stride == 0 ? INT64_MAX : stride; }
  void set(int at, int64_t size, int64_t stride, int64_t out_stride) {
    shape[at] = size;
    strides[at] = stride;
    out_strides[at] = out_stride;
  }
  void move(int from, int to) { set(to, shape[from], strides[from], out_strides[from]); }
};

// One dimension, taken out of some Axes.
struct Line {
  int64_t size = 1, stride = 1, out_stride = 1;

  static Line innermost(Axes& axes) {
    if (axes.ndim == 0) return {};
    const int i = --axes.ndim;
    return {axes.shape[i], axes.strides[i], axes.out_strides[i]};
  }
};

// A place along `columns` and in `outer` identifies a result. Its numbers are `count` positions
// along `rows` and in `reduced`, each `repeats` times: dimensions along which x is broadcast are
// left out. Tasks have `tile` neighbouring columns and `part` positions.
struct ReductionPlan {
  Axes outer, reduced;
  static constexpr int64_t most_columns = 512;  // of a task
  Line columns, rows;
  bool is_dense = false;  // rows of columns follow each other without gaps
  int64_t outputs, count, repeats = 1;
  int64_t tile, tiles;  // tiles: for all results
  int64_t part, parts;  // parts: of each result

  // Makes a plan. is_kept(d) is true if the results have x's dimension d.
  template <class IsKept>
  ReductionPlan(const View& out, const View& x, IsKept&& is_kept) {
    for (int d = 0; d < x.ndim; ++d) {
      if (is_kept(d))
        outer.insert(x.shape[d], x.strides[d], out.strides[d]);
      else if (x.strides[d] == 0 && x.shape[d] > 1)
        repeats *= x.shape[d];
      else
        reduced.insert(x.shape[d], x.strides[d], 0);
    }
    outer.merge();
    reduced.merge();
    outputs = outer.size();
    count = reduced.size();
    if (columns_are_closer()) columns = Line::innermost(outer);
    rows = Line::innermost(reduced);
    const bool has_dense_columns =
        columns.size <= most_dense_columns && columns.stride == 1 && rows.stride == columns.size;
    is_dense = has_dense_columns || columns.size == 1;
    cut();
  }

  struct Task {
    int64_t columns;  // results, neighbours along `columns`
    Axes::Offsets first;
    int64_t begin, end;  // positions
  };
  // Returns the task of part p of tile t.
  Task task(int64_t t, int64_t p) const {
    const int64_t across = across_tiles(), column = t % across * tile, left = columns.size - column;
    Axes::Offsets first = outer.at(t / across);
    first.x += column * columns.stride;
    first.out += column * columns.out_stride;
    const int64_t begin = p * part, end = begin + part;
    return {left < tile ? left : tile, first, begin, end < count ? end : count};
  }
  // Calls body(offset, n) for the task's positions as n rows from an offset of x on.
  template <class Body>
  void for_each_segment(const Task& task, Body&& body) const {
    for (int64_t at = task.begin; at < task.end;) {
      const int64_t row = at % rows.size, left = rows.size - row;
      const int64_t n = left < task.end - at ? left : task.end - at;
      body(task.first.x + reduced.at(at / rows.size).x + row * rows.stride, n);
      at += n;
    }
  }
  // Calls body(t, p) for all tasks.
  template <class Body>
  void for_each_task(Body&& body) const {
    const int64_t p_count = parts;
    for_each_range(tiles * parts, grain_for(tile * part), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) body(i / p_count, i % p_count);
    });
  }

 private:
  static constexpr int64_t most_dense_columns = 32;
  static constexpr int64_t few_numbers = 16;  // of one result
  static constexpr int64_t numbers_of_task = 65536;

  bool columns_are_closer() const {
    if (outer.ndim == 0) return false;
    if (reduced.size() <= few_numbers) return true;  // or else each result has its own task
    const int64_t kept = outer.strides[outer.ndim - 1];
    const int64_t other = reduced.strides[reduced.ndim - 1];
    return kept != 0 && (other == 0 || kept < other);
  }
  int64_t across_tiles() const { return (columns.size + tile - 1) / tile; }
  void cut() {
    tile = columns.size < most_columns ? columns.size : most_columns;
    if (tile < 1) tile = 1;
    tiles = outputs > 0 ? outputs / columns.size * across_tiles() : 0;
    part = numbers_of_task / tile;
    if (part > count) part = count > 0 ? count : 1;
    parts = count > 0 ? (count + part - 1) / part : 1;
  }
};

}  // namespace booster::kernels::BOOSTER_VARIANT
