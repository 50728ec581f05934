// Elementwise kernels on the CPU. Each tile of an operand is converted to the compute type (unless
// it is a dense run of that type), computed by a loop that vectorises, and converted back.
#pragma once

#include "kernels/elementwise/convert_runs.h"
#include "kernels/elementwise/elementwise_math.h"
#include "kernels/elementwise/tiles.h"

namespace booster::kernels::BOOSTER_VARIANT {

// Returns the first input before operand `k` with the same elements in this tile; 0 if there is
// none.
inline int equal_operand(const TilePart* parts, int k) {
  for (int i = 1; i < k; ++i)
    if (parts[i].data == parts[k].data && parts[i].stride == parts[k].stride &&
        parts[i].row_stride == parts[k].row_stride && parts[i].dtype == parts[k].dtype)
      return i;
  return 0;
}

// The inputs of a range of tiles as dense runs of C. A constant one is written once.
template <class C>
class Inputs {
 public:
  Inputs(const TileWalk& walk, int64_t elements) : inputs_(walk.operands() - 1) {
    for (int k = 0; k < inputs_; ++k) {
      is_constant_[k] = walk.is_constant(k + 1);
      if (!is_constant_[k]) continue;
      load_run(buffers_[k].values, walk.data(k + 1), walk.dtype(k + 1), 0, elements);
      x[k] = buffers_[k].values;
    }
  }
  void load(const TilePart* parts, int64_t rows, int64_t n) {
    for (int k = 0; k < inputs_; ++k) {
      if (is_constant_[k]) continue;
      const int same = equal_operand(parts, k + 1);  // such as an operand that the row ignores
      x[k] = same > 0 ? x[same - 1] : load_tile<C>(parts[k + 1], rows, n, buffers_[k]);
    }
  }
  const C* x[max_operands - 1] = {};

 private:
  int inputs_;
  bool is_constant_[max_operands - 1] = {};
  Buffer<C> buffers_[max_operands - 1];
};

// Loop of one op over a dense tile: y[i] from x[0][i], x[1][i], ...
template <class Y, class C>
using Loop = void (*)(Y* y, const C* const* x, int64_t n);

// Returns true if the view is one dense tile of a dtype.
inline bool is_dense_tile(const View& view, DType dtype) {
  return view.dtype == dtype && view.size() <= most_of_tile && view.contiguous();
}

// Computes small dense operands without a walk, whose set-up costs more than their elements.
// Returns false, and computes nothing, if an operand needs a walk. Inputs have the shape of
// views[0].
template <class Y, class C>
bool map_one_tile(const View* const* views, int inputs, DType of_result, Loop<Y, C> loop) {
  if (!is_dense_tile(*views[0], of_result)) return false;
  const C* x[max_operands - 1];
  for (int k = 0; k < inputs; ++k) {
    if (!is_dense_tile(*views[k + 1], DTypeOf<C>::value)) return false;
    x[k] = views[k + 1]->as<const C>();
  }
  loop(views[0]->as<Y>(), x, views[0]->size());
  return true;
}

// Computes y = loop(inputs) tile by tile in compute type C. The walk is compiled once per C; only
// the loops are compiled per op.
template <class C>
void map_tiles(const View* const* views, int inputs, Loop<C, C> loop) {
  if (map_one_tile(views, inputs, DTypeOf<C>::value, loop)) return;
  const TileWalk walk(views, inputs + 1);
  walk.for_each_range_of_tiles([&](int64_t most, auto&& for_each_tile) {
    Inputs<C> in(walk, most);
    Buffer<C> out;
    for_each_tile([&](const TilePart* parts, int64_t rows, int64_t n) {
      in.load(parts, rows, n);
      const TilePart& to = parts[0];
      const bool direct =
          to.stride == 1 && to.is_run(rows, n) && to.dtype == DTypeOf<C>::value;
      C* y = direct ? reinterpret_cast<C*>(to.data) : out.values;
      loop(y, in.x, rows * n);
      if (!direct) store_tile(to, y, rows, n);
    });
  });
}

// The same for truth values, whose tensor is bool.
template <class C>
void map_tiles_to_truth(const View* const* views, int inputs, Loop<uint8_t, C> loop) {
  if (map_one_tile(views, inputs, DType::boolean, loop)) return;
  const TileWalk walk(views, inputs + 1);
  walk.for_each_range_of_tiles([&](int64_t most, auto&& for_each_tile) {
    Inputs<C> in(walk, most);
    Buffer<uint8_t> out;
    for_each_tile([&](const TilePart* parts, int64_t rows, int64_t n) {
      in.load(parts, rows, n);
      const TilePart& to = parts[0];
      const bool direct = to.stride == 1 && to.is_run(rows, n);
      uint8_t* y = direct ? reinterpret_cast<uint8_t*>(to.data) : out.values;
      loop(y, in.x, rows * n);
      if (!direct) scatter(to, y, rows, n);
    });
  });
}

// Formulae in f32 that hold for some operands only: for which. Others are computed in f64.
template <class F>
struct Domain {
  static constexpr bool is_all = true;
};
template <int operand>
struct SmallAngle {
  static constexpr bool is_all = false;
  KERNEL_FN static bool has(const float* const* x, int64_t i) {
    return __builtin_fabsf(x[operand][i]) <= most_of_angle;
  }
};
template <>
struct Domain<unary_value::sin> : SmallAngle<0> {};
template <>
struct Domain<unary_value::cos> : SmallAngle<0> {};
template <>
struct Domain<unary_slope::sin> : SmallAngle<1> {};
template <>
struct Domain<unary_slope::cos> : SmallAngle<1> {};
template <int operand>
struct NormalBase {
  static constexpr bool is_all = false;
  KERNEL_FN static bool has(const float* const* x, int64_t i) {
    const float a = x[operand][i], b = x[operand + 1][i];
    return (a >= 0x1p-126f) & (a < __builtin_inff()) & (__builtin_fabsf(b) < __builtin_inff());
  }
};
template <>
struct Domain<binary_value::pow> : NormalBase<0> {};
template <>
struct Domain<binary_slope_a::pow> : NormalBase<1> {};

// Computes the elements outside of a formula's domain in f64.
template <int inputs, class F>
[[gnu::noinline]] void map_outside_domain(float* y, const float* const* x, const bool* is_inside,
                                          int64_t n) {
  for (int64_t i = 0; i < n; ++i)
    if (!is_inside[i]) y[i] = float(apply<inputs>(F(), [&](int k) { return double(x[k][i]); }));
}

// Computes views[0] = f(views[1], ...) of every element, in compute type C.
template <class C, int inputs, class F>
void map(const View* const* views, F) {
  map_tiles<C>(views, inputs, [](C* y, const C* const* in, int64_t n) {
    const C* p[inputs];
    for (int k = 0; k < inputs; ++k) p[k] = in[k];
    if constexpr (__is_same(C, float) && !Domain<F>::is_all) {
      // Taken first, because y may be an operand's memory.
      bool is_inside[most_of_tile];
      int outside = 0;
      for (int64_t i = 0; i < n; ++i) {
        is_inside[i] = Domain<F>::has(p, i);
        outside += !is_inside[i];
      }
      if (outside > 0) {
        float result[most_of_tile];
        for (int64_t i = 0; i < n; ++i)
          result[i] = apply<inputs>(F(), [&](int k) { return p[k][i]; });
        map_outside_domain<inputs, F>(result, p, is_inside, n);
        return void(__builtin_memcpy(y, result, size_t(n) * sizeof(float)));
      }
    }
    for (int64_t i = 0; i < n; ++i) y[i] = apply<inputs>(F(), [&](int k) { return p[k][i]; });
  });
}

// The same for comparisons.
template <class C, int inputs, class F>
void map_truth(const View* const* views, F) {
  map_tiles_to_truth<C>(views, inputs, [](uint8_t* y, const C* const* in, int64_t n) {
    const C* p[inputs];
    for (int k = 0; k < inputs; ++k) p[k] = in[k];
    for (int64_t i = 0; i < n; ++i)
      y[i] = apply<inputs>(F(), [&](int k) { return p[k][i]; }) != C(0);
  });
}

// Copies out = in, of one dtype, whose elements have the size of T.
template <class T>
void copy_tile(const TilePart& to, const TilePart& from, int64_t rows, int64_t n) {
  T* y = reinterpret_cast<T*>(to.data);
  const T* x = reinterpret_cast<const T*>(from.data);
  if (to.stride == 1 && to.is_run(rows, n)) return gather(y, from, rows, n);
  if (from.stride == 1 && from.is_run(rows, n)) return scatter(to, x, rows, n);
  if (from.is_transposed() && to.stride == 1)
    return transpose_block(y, to.row_stride, x, from.stride, rows, n);
  if (to.is_transposed() && from.stride == 1)
    return transpose_block(y, to.stride, x, from.row_stride, n, rows);
  for (int64_t r = 0; r < rows; ++r) {
    T* row = y + r * to.row_stride;
    const T* old = x + r * from.row_stride;
    if (to.stride == 1)
      gather_run(row, old, from.stride, n);
    else
      for (int64_t i = 0; i < n; ++i) row[i * to.stride] = old[i * from.stride];
  }
}

inline void copy_same_dtype(const View* const* views) {
  const TileWalk walk(views, 2);
  walk.for_each_range_of_tiles([&](int64_t, auto&& for_each_tile) {
    visit_size(views[0]->dtype, [&]<class T>(T*) {
      for_each_tile([&](const TilePart* parts, int64_t rows, int64_t n) {
        copy_tile<T>(parts[0], parts[1], rows, n);
      });
    });
  });
}

// Sets y = condition ? a : b for tensors of one dtype, whose elements have the size of T.
template <class T>
void select_tile(const TilePart* parts, int64_t rows, int64_t n, Room* rooms) {
  const TilePart& to = parts[0];
  const auto* condition = static_cast<const uint8_t*>(dense_part(parts[1], rows, n, rooms[1]));
  const T* a = static_cast<const T*>(dense_part(parts[2], rows, n, rooms[2]));
  const T* b = static_cast<const T*>(dense_part(parts[3], rows, n, rooms[3]));
  const bool direct = to.stride == 1 && to.is_run(rows, n);
  T* y = direct ? reinterpret_cast<T*>(to.data) : reinterpret_cast<T*>(rooms[0].values);
  for (int64_t i = 0; i < rows * n; ++i) y[i] = condition[i] ? a[i] : b[i];
  if (!direct) scatter(to, y, rows, n);
}

inline void select_same_dtype(const View* const* views) {
  const TileWalk walk(views, 4);
  walk.for_each_range_of_tiles([&](int64_t, auto&& for_each_tile) {
    Room rooms[4];
    visit_size(views[0]->dtype, [&]<class T>(T*) {
      for_each_tile([&](const TilePart* parts, int64_t rows, int64_t n) {
        select_tile<T>(parts, rows, n, rooms);
      });
    });
  });
}

// Converts out = in from any dtype to any other.
template <class C>
void convert(const View* const* views) {
  const TileWalk walk(views, 2);
  walk.for_each_range_of_tiles([&](int64_t, auto&& for_each_tile) {
    Room in, out;
    for_each_tile([&](const TilePart* parts, int64_t rows, int64_t n) {
      const TilePart &to = parts[0], &from = parts[1];
      const bool direct = to.stride == 1 && to.is_run(rows, n);
      void* y = direct ? to.data : reinterpret_cast<char*>(out.values);
      convert_run<C>(y, to.dtype, dense_part(from, rows, n, in), from.dtype, rows * n);
      if (!direct) scatter_any(to, y, rows, n);
    });
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
