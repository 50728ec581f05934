// Batch normalisation of images in the order (n, h, w, channels), on the CPU. In memory they are
// rows of `channels` numbers, cut into blocks that stay in the first-level cache and depend only on
// the sizes; the blocks' sums are added in their order, in double.
#include "kernels/numbers/compute_type.h"
#include "kernels/rows/batch_norm.h"
#include "kernels/rows/channel_rows.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

using namespace channel_rows;

thread_local Scratch center_buffer;                 // of a block
thread_local Scratch partial_buffer, total_buffer;  // of a call

template <class C>
struct Two {
  C first, second;
};

// A block's sums of two kinds for each channel.
template <class C>
struct Partials {
  C* numbers;
  int64_t channels;
  Partials(const Layout& layout)
      : numbers(partial_buffer.get<C>(2 * layout.blocks() * layout.channels)),
        channels(layout.channels) {}
  C* of(int64_t block, int kind) const { return numbers + (2 * block + kind) * channels; }
};

enum { center_of, factor_of, shift_of };  // tables of the normalised numbers
constexpr int origin_of = center_of;      // before there are centers

// Each block's means, measured from the channels' origins or from 0, and sums of squared deviations
// from them.
template <class C, bool from_origin, class T>
Partials<C> block_moments(const T* x, const Layout& layout, const Tables<C>& tables) {
  const Partials<C> partials(layout);
  for_each_block(layout.blocks(), [&](int64_t block) {
    C *means = partials.of(block, 0), *squares = partials.of(block, 1);
    sum_by_channel<C, 1>(layout, block, {means}, [=, &tables]<class N>(int64_t lane) {
      return [=, origin = tables.template at<N>(origin_of, lane)](int64_t i) {
        if constexpr (from_origin) return Terms<N, 1>{read<N>(x + i) - origin};
        return Terms<N, 1>{read<N>(x + i)};
      };
    });
    const C rows = C(layout.rows_in(block)), share = C(1) / rows;
    C* centers = center_buffer.get<C>(layout.width());
    const auto center = [&](int64_t c) {
      return Mean<C>::from(from_origin ? tables.of_channel(origin_of, c) : C(0), double(means[c]));
    };
    for (int64_t c = 0; c < layout.channels; ++c) {
      means[c] *= share;
      repeat(layout, centers, c, from_origin ? center(c).center : means[c]);
    }
    sum_by_channel<C, 1>(layout, block, {squares}, [=]<class N>(int64_t lane) {
      return [=, center = read<N>(centers + lane)](int64_t i) {
        const Numbers<N> deviation = read<N>(x + i) - center;
        return Terms<N, 1>{deviation * deviation};
      };
    });
    for (int64_t c = 0; from_origin && c < layout.channels; ++c)
      squares[c] -= rows * center(c).rest * center(c).rest;
  });
  return partials;
}

// Calls body(block, rows, channel) for all blocks, in their order, and all channels.
template <class Body>
KERNEL_FN void for_each_partial(const Layout& layout, Body&& body) {
  for (int64_t block = 0; block < layout.blocks(); ++block) {
    const double rows = double(layout.rows_in(block));
#pragma omp simd
    for (int64_t c = 0; c < layout.channels; ++c) body(block, rows, c);
  }
}

// Two f64 for each channel, zero.
Two<double*> zero_totals(const Layout& layout) {
  double* numbers = total_buffer.get<double>(2 * layout.channels);
  for (int64_t c = 0; c < 2 * layout.channels; ++c) numbers[c] = 0;
  return {numbers, numbers + layout.channels};
}

// The channels' means and variances in all blocks together (Chan, Golub and LeVeque, 1979).
template <class C>
Two<double*> merged_moments(const Partials<C>& partials, const Layout& layout) {
  const Two<double*> totals = zero_totals(layout);
  double *mean = totals.first, *variance = totals.second;
  for_each_partial(layout, [=](int64_t block, double rows, int64_t c) {
    mean[c] += double(partials.of(block, 0)[c]) * rows;
  });
  for (int64_t c = 0; c < layout.channels; ++c) mean[c] /= double(layout.rows);
  for_each_partial(layout, [=](int64_t block, double rows, int64_t c) {
    const double apart = double(partials.of(block, 0)[c]) - mean[c];
    variance[c] += double(partials.of(block, 1)[c]) + apart * apart * rows;
  });
  for (int64_t c = 0; c < layout.channels; ++c) variance[c] /= double(layout.rows);
  return totals;
}

// The channels' means and variances, where need be from their first numbers as origins.
template <class C, class T>
Two<double*> all_moments(const T* x, const Layout& layout, Tables<C>& tables) {
  const Two<double*> moments = merged_moments(block_moments<C, false>(x, layout, tables), layout);
  bool is_far = false;
  for (int64_t c = 0; c < layout.channels; ++c)
    is_far |= is_far_from_zero(C(moments.first[c]), C(moments.second[c]));
  if (!is_far) return moments;
  for (int64_t c = 0; c < layout.channels; ++c) tables.set(origin_of, c, load<C>(x + c));
  merged_moments(block_moments<C, true>(x, layout, tables), layout);
  for (int64_t c = 0; c < layout.channels; ++c)
    moments.first[c] += double(tables.of_channel(origin_of, c));
  return moments;
}

// (x - center) factor + shift
template <class N>
struct Normalized {
  Numbers<N> center, factor, shift;
  template <class C>
  Normalized(const Tables<C>& tables, int64_t lane)
      : center(tables.template at<N>(center_of, lane)),
        factor(tables.template at<N>(factor_of, lane)),
        shift(tables.template at<N>(shift_of, lane)) {}
  KERNEL_FN Numbers<N> operator()(Numbers<N> x) const { return (x - center) * factor + shift; }
};

template <class C>
void set(Tables<C>& tables, int64_t channel, const Normalizing<C>& normalizing) {
  tables.set(center_of, channel, normalizing.center);
  tables.set(factor_of, channel, normalizing.factor);
  tables.set(shift_of, channel, normalizing.shift);
}

// Writes a block of y. Rounded where the steps that it stands for would be.
template <class T, class C>
void normalize_block(const BatchNorm& norm, const Layout& layout, int64_t block,
                     const Tables<C>& tables) {
  const T *x = norm.x.as<const T>(), *residual = norm.residual.as<const T>();
  T* y = norm.y.as<T>();
  for_each_number<C>(layout, block, [=, &tables, relu = norm.relu]<class N>(int64_t lane) {
    return [=, normalized = Normalized<N>(tables, lane)](int64_t i) {
      Numbers<N> value = normalized(read<N>(x + i));
      if (residual) value = rounded<N, T>(value) + read<N>(residual + i);
      write<N>(y + i, relu ? above_zero<N>(value) : value);
    };
  });
}

template <class T, class C>
void forward(const BatchNorm& norm) {
  const Layout layout(norm.x, lanes<C>);
  Tables<C> tables(layout, 3);
  if (norm.training) {
    const auto [mean, variance] = all_moments<C>(norm.x.as<const T>(), layout, tables);
    for (int64_t c = 0; c < layout.channels; ++c) {
      const Moments<C> moments = {Mean<C>(mean[c]), C(variance[c])};
      norm.update_running(c, moments, layout.rows);
      set(tables, c, norm.finish(c, moments));
    }
  } else {
    for (int64_t c = 0; c < layout.channels; ++c)
      set(tables, c, norm.finish(c, norm.running<C>(c)));
  }
  for_each_block(layout.blocks(),
                 [&](int64_t block) { normalize_block<T>(norm, layout, block, tables); });
}

// Numbers above zero up to here become zero in this dtype.
template <class C>
constexpr C rounded_to_zero(const f16*) {
  return C(0x1p-25);
}
template <class C>
constexpr C rounded_to_zero(const bf16*) {
  return C(0x1p-134);
}
template <class C>
constexpr C rounded_to_zero(const C*) {
  return C(0);
}

// The gradient of normalised numbers: g, or 0 where relu gave 0. With a residual it is stored,
// being that one's gradient too.
template <class T, class C, class N>
class Gradient {
 public:
  Gradient(const BatchNormBackward& norm, const Tables<C>& tables, int64_t lane)
      : normalized_(tables, lane),
        g_(norm.g.as<const T>()),
        y_(norm.y.as<const T>()),
        kept_(norm.dresidual.as<T>()),
        relu_(norm.relu) {}
  KERNEL_FN Numbers<N> operator()(Numbers<N> x, int64_t i) const {
    const Numbers<N> g = read<N>(g_ + i), zero = {};
    if (!relu_) return g;
    if (!kept_) return normalized_(x) <= zero + rounded_to_zero<C>(g_) ? zero : g;
    const Numbers<N> kept = read<N>(y_ + i) <= zero ? zero : g;
    write<N>(kept_ + i, kept);
    return kept;
  }

 private:
  Normalized<N> normalized_;
  const T *g_, *y_;
  T* kept_;
  bool relu_;
};

// Each block's sums of g and of g (x - center). g is the gradient of the normalised values.
template <class T, class C>
Partials<C> block_gradients(const BatchNormBackward& norm, const Layout& layout,
                            const Tables<C>& tables) {
  const Partials<C> partials(layout);
  for_each_block(layout.blocks(), [&](int64_t block) {
    sum_by_channel<C, 2>(layout, block, {partials.of(block, 0), partials.of(block, 1)},
                         [=, &norm, &tables]<class N>(int64_t lane) {
                           return [x = norm.x.as<const T>(),
                                   gradient = Gradient<T, C, N>(norm, tables, lane),
                                   center = tables.template at<N>(center_of, lane)](int64_t i) {
                             const Numbers<N> value = read<N>(x + i), g = gradient(value, i);
                             return Terms<N, 2>{g, g * (value - center)};
                           };
                         });
  });
  return partials;
}

// The channels' sums of both kinds in all blocks together.
template <class C>
Two<double*> all_sums(const Partials<C>& partials, const Layout& layout) {
  const Two<double*> totals = zero_totals(layout);
  for_each_partial(layout, [=](int64_t block, double, int64_t c) {
    totals.first[c] += double(partials.of(block, 0)[c]);
    totals.second[c] += double(partials.of(block, 1)[c]);
  });
  return totals;
}

// What is left to do once a residual's gradient is stored: plain normalisation's backward of it.
BatchNormBackward after_residual(BatchNormBackward norm) {
  if (!norm.dresidual.data) return norm;
  norm.g = norm.dresidual;
  norm.relu = false;
  return norm;
}

enum { average_of = shift_of + 1, along_of, backward_tables };

template <class T, class C>
void write_gradients(const BatchNormBackward& norm, const Layout& layout, int64_t block,
                     const Tables<C>& tables) {
  for_each_number<C>(layout, block, [&]<class N>(int64_t lane) {
    return [x = norm.x.as<const T>(), dx = norm.dx.as<T>(),
            gradient = Gradient<T, C, N>(norm, tables, lane),
            center = tables.template at<N>(center_of, lane),
            factor = tables.template at<N>(factor_of, lane),
            average = tables.template at<N>(average_of, lane),
            along = tables.template at<N>(along_of, lane)](int64_t i) {
      const Numbers<N> value = read<N>(x + i), g = gradient(value, i), zero = {};
      const Numbers<N> distance = along == zero ? zero : value - center;  // infinity times 0 is nan
      write<N>(dx + i, factor * (g - average - distance * along));
    };
  });
}

template <class T, class C>
void backward(const BatchNormBackward& norm) {
  const Layout layout(norm.x, lanes<C>);
  Tables<C> tables(layout, backward_tables);
  for (int64_t c = 0; c < layout.channels; ++c) set(tables, c, norm.normalizing<C>(c));
  const auto [gradient, product] = all_sums(block_gradients<T>(norm, layout, tables), layout);
  for (int64_t c = 0; c < layout.channels; ++c) {
    const auto terms = norm.finish<C>(c, gradient[c], product[c], layout.rows);
    tables.set(average_of, c, terms.average);
    tables.set(along_of, c, terms.along);
  }
  const BatchNormBackward stored = after_residual(norm);
  for_each_block(layout.blocks(),
                 [&](int64_t block) { write_gradients<T>(stored, layout, block, tables); });
}

}  // namespace

void batch_norm_channels_last(const BatchNorm& norm) {
  visit_floating(norm.x.dtype, [&]<class T>(T*) { forward<T, ComputeOf<T>>(norm); });
}

void batch_norm_channels_last(const BatchNormBackward& norm) {
  visit_floating(norm.x.dtype, [&]<class T>(T*) { backward<T, ComputeOf<T>>(norm); });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
