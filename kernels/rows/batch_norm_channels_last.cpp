// Batch normalisation of images in the order (n, h, w, channels), on the CPU. In memory they are
// rows of `channels` numbers, cut into blocks that stay in the first-level cache and depend only on
// the sizes; the blocks' sums are added in their order, in double.
#include "kernels/rows/batch_norm.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

thread_local Scratch first_buffer, second_buffer, third_buffer, output_buffer;  // of a block
thread_local Scratch lane_buffer;                                               // its sums
thread_local Scratch partial_buffer, table_buffer, total_buffer;                // of a call

constexpr int64_t block_size = 2048;  // numbers: 8 KB in f32
constexpr int64_t lane_count = 128;   // at least; keeps the vector units busy if channels are few

// Few channels are worked on as if several rows were one of `width` numbers.
struct Layout {
  int64_t rows, channels, fold, rows_per_block;

  explicit Layout(const View& x)
      : rows(x.shape[0] * x.shape[2] * x.shape[3]),
        channels(x.shape[1]),
        fold((lane_count + channels - 1) / channels),
        rows_per_block(channels < block_size ? block_size / channels : 1) {}
  int64_t width() const { return channels * fold; }
  int64_t blocks() const { return (rows + rows_per_block - 1) / rows_per_block; }
  int64_t block_room() const { return rows_per_block * channels; }
  int64_t first(int64_t block) const { return block * block_room(); }  // number
  int64_t rows_in(int64_t block) const {
    const int64_t left = rows - block * rows_per_block;
    return left < rows_per_block ? left : rows_per_block;
  }
  int64_t numbers_in(int64_t block) const { return rows_in(block) * channels; }
};

// A block's numbers as C.
template <class C>
const C* read_block(const View& x, const Layout& layout, int64_t block, Scratch& buffer) {
  return read_row(x, layout.first(block), layout.numbers_in(block),
                  buffer.get<C>(layout.block_room()));
}

// Calls body(i, lane) for i in [0, count), with lane = i % width: a vector loop per width.
template <class Body>
KERNEL_FN void for_each_number(int64_t count, int64_t width, Body&& body) {
  int64_t at = 0;
  for (; at + width <= count; at += width) {
#pragma omp simd
    for (int64_t lane = 0; lane < width; ++lane) body(at + lane, lane);
  }
#pragma omp simd
  for (int64_t lane = 0; lane < count - at; ++lane) body(at + lane, lane);
}

// Adds up the lanes of each channel.
template <class C>
void fold(const Layout& layout, const C* lanes, C* sums) {
  for (int64_t c = 0; c < layout.channels; ++c) sums[c] = C(0);
  for (int64_t k = 0; k < layout.fold; ++k)
    for (int64_t c = 0; c < layout.channels; ++c) sums[c] += lanes[k * layout.channels + c];
}

template <class C>
C* zero_lanes(const Layout& layout, int count) {
  C* lanes = lane_buffer.get<C>(count * layout.width());
  for (int64_t i = 0; i < count * layout.width(); ++i) lanes[i] = C(0);
  return lanes;
}

// The sum of term(i, lane) of each channel over a block's numbers.
template <class C, class Term>
KERNEL_FN void sums_by_channel(const Layout& layout, int64_t count, C* sums, Term&& term) {
  C* lanes = zero_lanes<C>(layout, 1);
  for_each_number(count, layout.width(),
                  [=](int64_t i, int64_t lane) { lanes[lane] += term(i, lane); });
  fold(layout, lanes, sums);
}

template <class C>
struct Two {
  C first, second;
};

// Two sums at once: term(i, lane) is a Two.
template <class C, class Term>
KERNEL_FN void sums_by_channel(const Layout& layout, int64_t count, C* first, C* second,
                               Term&& term) {
  C* lanes = zero_lanes<C>(layout, 2);
  C* others = lanes + layout.width();
  for_each_number(count, layout.width(), [=](int64_t i, int64_t lane) {
    const Two<C> both = term(i, lane);
    lanes[lane] += both.first;
    others[lane] += both.second;
  });
  fold(layout, lanes, first);
  fold(layout, others, second);
}

// Tables of numbers for each lane: a channel's, repeated.
template <class C>
class Tables {
 public:
  Tables(const Layout& layout, int count)
      : layout_(layout), numbers_(table_buffer.get<C>(count * layout.width())) {}
  void set(int table, int64_t channel, C value) {
    for (int64_t k = 0; k < layout_.fold; ++k)
      numbers_[table * layout_.width() + k * layout_.channels + channel] = value;
  }
  const C* operator[](int table) const { return numbers_ + table * layout_.width(); }

 private:
  const Layout& layout_;
  C* numbers_;
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

// Each block's mean and sum of squared deviations from it.
template <class C>
Partials<C> block_moments(const View& x, const Layout& layout) {
  const Partials<C> partials(layout);
  for_each_block(layout.blocks(), [&](int64_t block) {
    const int64_t count = layout.numbers_in(block), channels = layout.channels;
    const C* values = read_block<C>(x, layout, block, first_buffer);
    C* means = partials.of(block, 0);
    sums_by_channel(layout, count, means, [=](int64_t i, int64_t) { return values[i]; });
    const C share = C(1) / C(layout.rows_in(block));
    for (int64_t c = 0; c < channels; ++c) means[c] *= share;
    C* centers = second_buffer.get<C>(layout.width());
    for (int64_t k = 0; k < layout.fold; ++k)
      for (int64_t c = 0; c < channels; ++c) centers[k * channels + c] = means[c];
    sums_by_channel(layout, count, partials.of(block, 1), [=](int64_t i, int64_t lane) {
      const C deviation = values[i] - centers[lane];
      return deviation * deviation;
    });
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
Two<double*> all_moments(const Partials<C>& partials, const Layout& layout) {
  const auto [mean, variance] = zero_totals(layout);
  for_each_partial(layout, [=](int64_t block, double rows, int64_t c) {
    mean[c] += double(partials.of(block, 0)[c]) * rows;
  });
  for (int64_t c = 0; c < layout.channels; ++c) mean[c] /= double(layout.rows);
  for_each_partial(layout, [=](int64_t block, double rows, int64_t c) {
    const double apart = double(partials.of(block, 0)[c]) - mean[c];
    variance[c] += double(partials.of(block, 1)[c]) + apart * apart * rows;
  });
  for (int64_t c = 0; c < layout.channels; ++c) variance[c] /= double(layout.rows);
  return {mean, variance};
}

enum { center_of, factor_of, shift_of };  // tables of the normalised numbers

template <class C>
C above_zero(C value) {
  return value <= C(0) ? C(0) : value;
}

// (values - center) factor + shift; forward and backward must agree on it to the last bit.
template <class C>
struct Normalized {
  const C *center, *factor, *shift;
  explicit Normalized(const Tables<C>& tables)
      : center(tables[center_of]), factor(tables[factor_of]), shift(tables[shift_of]) {}
  C operator()(C value, int64_t lane) const {
    return (value - center[lane]) * factor[lane] + shift[lane];
  }
};

// Writes a block of y. Rounded where the steps that it stands for would be.
template <class C>
void normalize_block(const BatchNorm& norm, const Layout& layout, int64_t block,
                     const Normalized<C>& normalized) {
  const int64_t first = layout.first(block), count = layout.numbers_in(block);
  const int64_t width = layout.width();
  const C* values = read_block<C>(norm.x, layout, block, first_buffer);
  C* out = row_target(norm.y, first, output_buffer.get<C>(layout.block_room()));
  if (norm.relu && !norm.residual.data) {
    for_each_number(count, width, [=](int64_t i, int64_t lane) {
      out[i] = above_zero(normalized(values[i], lane));
    });
  } else {
    for_each_number(count, width,
                    [=](int64_t i, int64_t lane) { out[i] = normalized(values[i], lane); });
  }
  write_row(norm.y, first, count, out);
  if (!norm.residual.data) return;
  const C* rounded = read_block<C>(norm.y, layout, block, first_buffer);
  const C* residual = read_block<C>(norm.residual, layout, block, second_buffer);
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) out[i] = above_zero(rounded[i] + residual[i]);
  write_row(norm.y, first, count, out);
}

template <class C>
void forward(const BatchNorm& norm) {
  const Layout layout(norm.x);
  Tables<C> tables(layout, 3);
  const auto set = [&](int64_t c, const Moments<C>& moments) {
    tables.set(center_of, c, moments.mean);
    tables.set(factor_of, c, norm.finish(c, moments));
    tables.set(shift_of, c, load_scalar(norm.beta, c, C(0)));
  };
  if (norm.training) {
    const auto [mean, variance] = all_moments(block_moments<C>(norm.x, layout), layout);
    for (int64_t c = 0; c < layout.channels; ++c) {
      const Moments<C> moments = {C(mean[c]), C(variance[c])};
      norm.update_running(c, moments, layout.rows);
      set(c, moments);
    }
  } else {
    for (int64_t c = 0; c < layout.channels; ++c) set(c, norm.running<C>(c));
  }
  const Normalized<C> normalized(tables);
  for_each_block(layout.blocks(),
                 [&](int64_t block) { normalize_block(norm, layout, block, normalized); });
}

// Numbers above zero up to here become zero in this dtype.
template <class C>
C rounded_to_zero(DType dtype) {
  return dtype == DType::f16 ? C(0x1p-25) : dtype == DType::bf16 ? C(0x1p-134) : C(0);
}

// Calls body with the gradient of a block's normalised numbers as a function of (i, lane): g, or 0
// where relu gave 0. With a residual it also stores what it gives, which is that one's gradient.
template <class C, class Body>
KERNEL_FN void with_gradient(const BatchNormBackward& norm, const Layout& layout, int64_t block,
                             const Normalized<C>& normalized, const C* values, Body&& body) {
  const C* g = read_block<C>(norm.g, layout, block, second_buffer);
  if (!norm.relu) return body([=](int64_t i, int64_t) { return g[i]; });
  if (!norm.dresidual.data) {
    const C zero = rounded_to_zero<C>(norm.x.dtype);
    return body(
        [=](int64_t i, int64_t lane) { return normalized(values[i], lane) <= zero ? C(0) : g[i]; });
  }
  const int64_t first = layout.first(block);
  const C* y = read_block<C>(norm.y, layout, block, third_buffer);
  C* kept = row_target(norm.dresidual, first, second_buffer.get<C>(layout.block_room()));
  body([=](int64_t i, int64_t) { return kept[i] = y[i] <= C(0) ? C(0) : g[i]; });
  write_row(norm.dresidual, first, layout.numbers_in(block), kept);
}

// Each block's sums of g and of g (x - mean), g being that of the normalised numbers.
template <class C>
Partials<C> block_gradients(const BatchNormBackward& norm, const Layout& layout,
                            const Normalized<C>& normalized) {
  const Partials<C> partials(layout);
  const C* center = normalized.center;
  for_each_block(layout.blocks(), [&](int64_t block) {
    const C* values = read_block<C>(norm.x, layout, block, first_buffer);
    with_gradient(norm, layout, block, normalized, values, [&](auto gradient) {
      sums_by_channel(layout, layout.numbers_in(block), partials.of(block, 0),
                      partials.of(block, 1), [=](int64_t i, int64_t lane) {
                        const C g = gradient(i, lane);
                        return Two<C>{g, g * (values[i] - center[lane])};
                      });
    });
  });
  return partials;
}

// The channels' sums of both kinds in all blocks together.
template <class C>
Two<double*> all_sums(const Partials<C>& partials, const Layout& layout) {
  const auto [first, second] = zero_totals(layout);
  for_each_partial(layout, [=](int64_t block, double, int64_t c) {
    first[c] += double(partials.of(block, 0)[c]);
    second[c] += double(partials.of(block, 1)[c]);
  });
  return {first, second};
}

// What is left to do once a residual's gradient is stored: plain normalisation's backward of it.
BatchNormBackward after_residual(BatchNormBackward norm) {
  if (!norm.dresidual.data) return norm;
  norm.g = norm.dresidual;
  norm.relu = false;
  return norm;
}

enum { average_of = shift_of + 1, along_of, backward_tables };

template <class C>
void backward(const BatchNormBackward& norm) {
  const Layout layout(norm.x);
  Tables<C> tables(layout, backward_tables);
  for (int64_t c = 0; c < layout.channels; ++c) {
    tables.set(center_of, c, load_scalar<C>(norm.mean, c));
    tables.set(factor_of, c, norm.factor<C>(c));
    tables.set(shift_of, c, load_scalar(norm.beta, c, C(0)));
  }
  const Normalized<C> normalized(tables);
  const auto [gradient, product] = all_sums(block_gradients(norm, layout, normalized), layout);
  for (int64_t c = 0; c < layout.channels; ++c) {
    const auto terms = norm.finish(c, C(gradient[c]), C(product[c]), layout.rows);
    tables.set(average_of, c, terms.average);
    tables.set(along_of, c, terms.along);
  }
  const C *center = tables[center_of], *factor = tables[factor_of];
  const C *average = tables[average_of], *along = tables[along_of];
  const BatchNormBackward stored = after_residual(norm);
  for_each_block(layout.blocks(), [&](int64_t block) {
    const int64_t count = layout.numbers_in(block), first = layout.first(block);
    const C* values = read_block<C>(stored.x, layout, block, first_buffer);
    C* out = row_target(stored.dx, first, output_buffer.get<C>(layout.block_room()));
    with_gradient(stored, layout, block, normalized, values, [&](auto gradient) {
      for_each_number(count, layout.width(), [=](int64_t i, int64_t lane) {
        const C distance = counted(values[i] - center[lane], along[lane]);
        out[i] = factor[lane] * (gradient(i, lane) - average[lane] - distance * along[lane]);
      });
    });
    write_row(stored.dx, first, count, out);
  });
}

}  // namespace

void batch_norm_channels_last(const BatchNorm& norm) {
  visit_compute(norm.x.dtype, [&](auto* compute) { forward<__typeof__(*compute + 0)>(norm); });
}

void batch_norm_channels_last(const BatchNormBackward& norm) {
  visit_compute(norm.x.dtype, [&](auto* compute) { backward<__typeof__(*compute + 0)>(norm); });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
