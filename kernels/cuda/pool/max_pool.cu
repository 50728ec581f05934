// Maxima of windows. In the backward pass, each element of dx searches the lines of g that could
// have their maxima at its position. It adds their gradients in the order of g. No two threads add
// to one place, and the sums equal the CPU's. The positions of the maxima determine these lines,
// since the call does not give the windows.
#include "kernels/catalogue.h"
#include "kernels/cuda/pool/plane.cuh"
#include "kernels/launch/workspace.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

// Returns the smallest i >= 0 for which start + i * step >= 0.
KERNEL_FN int64_t steps_to_zero(int64_t start, int64_t step) {
  return start < 0 ? quotient(-start + step - 1, step) : 0;
}

// Returns the positions of one dimension under window i of an axis: begin, begin + dilation, ...
KERNEL_FN Range range_of(const Window2d& window, int axis, int64_t i, int64_t n) {
  const int64_t start = i * window.stride[axis] - window.padding[axis];
  const int64_t step = window.dilation[axis];
  const int64_t stop = start + window.kernel[axis] * step;
  return {start + steps_to_zero(start, step) * step, smaller(stop, n), 0};
}

// Returns the offset in the plane of the largest element, the first of equal ones; a nan counts as
// the largest.
template <class C, class T>
__device__ int64_t largest_of(const T* x, const Plane& in, const Window2d& window,
                              const Range& rows, const Range& columns) {
  int64_t best = rows.begin * in.width + columns.begin;
  C largest = load<C>(x + best);
  for (int64_t row = rows.begin; row < rows.end; row += window.dilation[0])
    for (int64_t column = columns.begin; column < columns.end; column += window.dilation[1]) {
      const int64_t at = row * in.width + column;
      const C value = load<C>(x + at);
      if (!(value > largest) && value == value) continue;
      largest = value;
      best = at;
    }
  return best;
}

// The lines (rows, or columns) of all planes of g, and of all planes of dx.
struct Lines {
  Plane out, in;
  KERNEL_FN static int64_t lines(const Plane& plane) { return plane.height + plane.width; }
  // Returns line i of all lines: rows come first, then columns.
  KERNEL_FN static Place line_of(const Plane& plane, int64_t i) {
    const int64_t p = quotient(i, lines(plane));
    return {p, i - p * lines(plane), 0};
  }
};

// Sets spans[line of g] = the first row (column) of dx in which it has maxima, and the one after
// the last.
void find_spans(const Lines& lines, int64_t planes, const int64_t* index, Range* spans) {
  for_each_item(planes * Lines::lines(lines.out), [=] ON_DEVICE(int64_t i) {
    const Plane out = lines.out;
    const Place line = Lines::line_of(out, i);
    const bool is_row = line.row < out.height;
    const int64_t* from = index + line.plane * out.size();
    from += is_row ? line.row * out.width : line.row - out.height;
    const int64_t n = is_row ? out.width : out.height, step = is_row ? 1 : out.width;
    Range span = {INT64_MAX, 0, 0};
    for (int64_t k = 0; k < n; ++k) {
      const int64_t row = quotient(from[k * step], lines.in.width);
      const int64_t at = is_row ? row : from[k * step] - row * lines.in.width;
      span = {smaller(span.begin, at), larger(span.end, at + 1), 0};
    }
    spans[i] = span;
  });
}

// Sets sources[line of dx] = the lines of g from the first to the last whose span contains it.
void find_sources(const Lines& lines, int64_t planes, const Range* spans, Range* sources) {
  for_each_item(planes * Lines::lines(lines.in), [=] ON_DEVICE(int64_t i) {
    const Place line = Lines::line_of(lines.in, i);
    const bool is_row = line.row < lines.in.height;
    const int64_t at = is_row ? line.row : line.row - lines.in.height;
    const Range* span = spans + line.plane * Lines::lines(lines.out);
    if (!is_row) span += lines.out.height;
    Range source = {0, 0, 0};
    for (int64_t k = 0; k < (is_row ? lines.out.height : lines.out.width); ++k) {
      if (at < span[k].begin || at >= span[k].end) continue;
      source = {source.end > 0 ? source.begin : k, k + 1, 0};
    }
    sources[i] = source;
  });
}

void add_from_sources(const View& dx, const View& g, const int64_t* index, const Lines& lines,
                      const Range* sources) {
  for_each_item(dx.size(), [=] ON_DEVICE(int64_t i) {
    const Plane out = lines.out, in = lines.in;
    const Place at = place_of(in, i);
    const Range* source = sources + at.plane * Lines::lines(in);
    const Range rows = source[at.row], columns = source[in.height + at.column];
    const int64_t offset = at.row * in.width + at.column;
    visit_floating(g.dtype, [&]<class T>(T*) {
      using C = ComputeOf<T>;
      C sum = 0;
      for (int64_t row = rows.begin; row < rows.end; ++row)
        for (int64_t column = columns.begin; column < columns.end; ++column) {
          const int64_t from = at.plane * out.size() + row * out.width + column;
          if (index[from] == offset) sum += load<C>(static_cast<const T*>(g.data) + from);
        }
      store_any<C>(dx.data, dx.dtype, i, sum);
    });
  });
}

}  // namespace

void max_pool2d(View y, View index, View x, Window2d window) {
  const Plane out = plane_of(y), in = plane_of(x);
  int64_t* places = index.as<int64_t>();
  for_each_item(y.size(), [=] ON_DEVICE(int64_t i) {
    const Place at = place_of(out, i);
    const Range rows = range_of(window, 0, at.row, in.height);
    const Range columns = range_of(window, 1, at.column, in.width);
    visit_floating(x.dtype, [&]<class T>(T*) {
      using C = ComputeOf<T>;
      const T* from = static_cast<const T*>(x.data) + at.plane * in.size();
      const int64_t best = largest_of<C>(from, in, window, rows, columns);
      places[i] = best;
      store_any<C>(y.data, y.dtype, i, load<C>(from + best));
    });
  });
}

void max_pool2d_backward(View dx, View g, View index) {
  const Lines lines = {plane_of(g), plane_of(dx)};
  const int64_t planes = dx.shape[0] * dx.shape[1];
  const int64_t* places = index.as<const int64_t>();
  const Workspace<Range> spans(planes * Lines::lines(lines.out));
  const Workspace<Range> sources(planes * Lines::lines(lines.in));
  find_spans(lines, planes, places, spans.data());
  find_sources(lines, planes, spans.data(), sources.data());
  add_from_sources(dx, g, places, lines, sources.data());
}

}  // namespace booster::kernels::BOOSTER_VARIANT
