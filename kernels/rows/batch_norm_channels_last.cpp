// Batch normalisation of images in the order (n, h, w, channels), on the CPU. In memory they are
// rows of `channels` numbers, cut into blocks that stay in the first-level cache and depend only on
// the sizes; the blocks' sums are added in their order, in double.
#include "kernels/rows/batch_norm.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

thread_local Scratch first_buffer, second_buffer, output_buffer;  // of a block
thread_local Scratch lane_buffer;                                 // its sums
thread_local Scratch partial_buffer, table_buffer;                // of a call

constexpr int64_t block_size = 4096;  // numbers: 16 KB in f32
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

// The sum of term(i) of each channel over a block's numbers.
template <class C, class Term>
KERNEL_FN void sums_by_channel(const Layout& layout, int64_t count, C* sums, Term&& term) {
  const int64_t width = layout.width(), channels = layout.channels;
  C* lanes = lane_buffer.get<C>(width);
  for (int64_t i = 0; i < width; ++i) lanes[i] = C(0);
  for_each_number(count, width, [=](int64_t i, int64_t lane) { lanes[lane] += term(i, lane); });
  for (int64_t c = 0; c < channels; ++c) sums[c] = C(0);
  for (int64_t k = 0; k < layout.fold; ++k)
    for (int64_t c = 0; c < channels; ++c) sums[c] += lanes[k * channels + c];
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

// The moments of all blocks together (Chan, Golub and LeVeque, 1979).
template <class C>
Moments<C> together(const Partials<C>& partials, const Layout& layout, int64_t channel) {
  double sum = 0, squares = 0;
  for (int64_t block = 0; block < layout.blocks(); ++block)
    sum += double(partials.of(block, 0)[channel]) * double(layout.rows_in(block));
  const double mean = sum / double(layout.rows);
  for (int64_t block = 0; block < layout.blocks(); ++block) {
    const double apart = double(partials.of(block, 0)[channel]) - mean;
    squares +=
        double(partials.of(block, 1)[channel]) + apart * apart * double(layout.rows_in(block));
  }
  return {C(mean), C(squares / double(layout.rows))};
}

enum { center_of, factor_of, shift_of };  // tables forward

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
    const Partials<C> partials = block_moments<C>(norm.x, layout);
    for (int64_t c = 0; c < layout.channels; ++c) {
      const Moments<C> moments = together(partials, layout, c);
      norm.update_running(c, moments, layout.rows);
      set(c, moments);
    }
  } else {
    for (int64_t c = 0; c < layout.channels; ++c) set(c, norm.running<C>(c));
  }
  const C *center = tables[center_of], *factor = tables[factor_of], *shift = tables[shift_of];
  for_each_block(layout.blocks(), [&](int64_t block) {
    const int64_t count = layout.numbers_in(block), first = layout.first(block);
    const C* values = read_block<C>(norm.x, layout, block, first_buffer);
    C* out = row_target(norm.y, first, output_buffer.get<C>(layout.block_room()));
    for_each_number(count, layout.width(), [=](int64_t i, int64_t lane) {
      out[i] = (values[i] - center[lane]) * factor[lane] + shift[lane];
    });
    write_row(norm.y, first, count, out);
  });
}

// Each block's sums of g and of g (x - mean).
template <class C>
Partials<C> block_gradients(const BatchNormBackward& norm, const Layout& layout, const C* center) {
  const Partials<C> partials(layout);
  for_each_block(layout.blocks(), [&](int64_t block) {
    const int64_t count = layout.numbers_in(block);
    const C* values = read_block<C>(norm.x, layout, block, first_buffer);
    const C* upper = read_block<C>(norm.g, layout, block, second_buffer);
    sums_by_channel(layout, count, partials.of(block, 0),
                    [=](int64_t i, int64_t) { return upper[i]; });
    sums_by_channel(layout, count, partials.of(block, 1),
                    [=](int64_t i, int64_t lane) { return upper[i] * (values[i] - center[lane]); });
  });
  return partials;
}

template <class C>
C total(const Partials<C>& partials, const Layout& layout, int64_t channel, int kind) {
  double sum = 0;
  for (int64_t block = 0; block < layout.blocks(); ++block)
    sum += double(partials.of(block, kind)[channel]);
  return C(sum);
}

template <class C>
void backward(const BatchNormBackward& norm) {
  const Layout layout(norm.x);
  Tables<C> tables(layout, 4);
  for (int64_t c = 0; c < layout.channels; ++c) tables.set(0, c, load_scalar<C>(norm.mean, c));
  const Partials<C> partials = block_gradients(norm, layout, tables[0]);
  for (int64_t c = 0; c < layout.channels; ++c) {
    const auto terms =
        norm.finish(c, total(partials, layout, c, 0), total(partials, layout, c, 1), layout.rows);
    tables.set(1, c, terms.factor);
    tables.set(2, c, terms.average);
    tables.set(3, c, terms.along);
  }
  const C *center = tables[0], *factor = tables[1], *average = tables[2], *along = tables[3];
  for_each_block(layout.blocks(), [&](int64_t block) {
    const int64_t count = layout.numbers_in(block), first = layout.first(block);
    const C* values = read_block<C>(norm.x, layout, block, first_buffer);
    const C* upper = read_block<C>(norm.g, layout, block, second_buffer);
    C* out = row_target(norm.dx, first, output_buffer.get<C>(layout.block_room()));
    for_each_number(count, layout.width(), [=](int64_t i, int64_t lane) {
      out[i] = factor[lane] * (upper[i] - average[lane] - (values[i] - center[lane]) * along[lane]);
    });
    write_row(norm.dx, first, count, out);
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
