// The gradient of a convolution's weight for channels-last images. At each position of g, the
// products of some outputs' gradients with x's channels under some taps are added to sums in
// registers. The partition of the images depends only on their count, so the bits are the same for
// any number of threads.
//
// A tile's inputs are packed first, in blocks of positions that stay in the second-level cache
// while all sums pass over them. Units (products/tile.h) pair two images at the same position, so
// that no tap, stride or padding separates a pair.
#include "kernels/catalogue.h"
#include "kernels/launch/workspace.h"
#include "kernels/numbers/convert.h"
#include "kernels/products/tile.h"

#include <string.h>

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

constexpr int lane_count = lanes<float>;
// A tile: outputs x taps of one kernel row, for a vector of channels.
constexpr int tile_outputs = many_registers ? 8 : 4;
constexpr int tile_taps = 3;
constexpr int64_t tile_sums = tile_outputs * lane_count;  // of one tap

constexpr int64_t most_parts = 16;
constexpr int64_t block_bytes = 192 << 10;

constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
constexpr int64_t divided_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

struct Range {
  int64_t begin, end;

  int64_t size() const { return end - begin; }
};

// Images of one size, channels last.
struct Images {
  const char* data;
  DType dtype;
  int64_t count, channels, size[2];

  explicit Images(const View& view)
      : data(view.as<const char>()),
        dtype(view.dtype),
        count(view.shape[0]),
        channels(view.shape[1]),
        size{view.shape[2], view.shape[3]} {}
  // Returns the vectors that hold the channels of a position.
  int64_t vectors() const { return divided_up(channels, lane_count); }
  const char* row(int64_t image, int64_t row) const {
    return data + (image * size[0] + row) * size[1] * channels * size_of(dtype);
  }
};

struct Work {
  Images x, g;
  Window2d window;

  int64_t output_tiles() const { return divided_up(g.channels, tile_outputs); }
  // Return the number of sums of one kernel row, and of all.
  int64_t row_sums() const { return output_tiles() * x.vectors() * window.kernel[1] * tile_sums; }
  int64_t sums() const { return window.kernel[0] * row_sums(); }
  // Returns the distance from a row of g, times the stride, to the row of x that the tap reads.
  int64_t row_offset(int64_t tap) const { return tap * window.dilation[0] - window.padding[0]; }
  // Returns the rows of g for which that row lies within x.
  Range reached(int64_t tap) const {
    const int64_t stride = window.stride[0], first = -row_offset(tap), last = first + x.size[0] - 1;
    return {first > 0 ? divided_up(first, stride) : 0,
            last < 0 ? 0 : smaller(g.size[0], last / stride + 1)};
  }
  // Returns the number of columns of x that a row of g reads, including padding.
  int64_t columns_read() const {
    return (g.size[1] - 1) * window.stride[1] + (window.kernel[1] - 1) * window.dilation[1] + 1;
  }
};

// One row of the images of a unit.
template <class F>
struct Row;

template <>
struct Row<tile::Plain<float>> {
  const float* numbers;

  Row(const Images& images, Range unit, int64_t row, float* buffer) {
    const char* source = images.row(unit.begin, row);
    numbers = images.dtype == DType::f32 ? reinterpret_cast<const float*>(source) : buffer;
    if (numbers == buffer)
      load_run(buffer, source, images.dtype, 1, images.size[1] * images.channels);
  }
  KERNEL_FN float unit(int64_t i) const { return numbers[i]; }
  KERNEL_FN void store_vector(float* units, int64_t i) const {
    vector_at(units) = load_vector(numbers + i);
  }
};

#ifdef __AVX512BF16__
template <>
struct Row<tile::Bf16Pairs> {
  const uint16_t *first, *second;

  // Pairs the last of an odd number of images with zeros.
  Row(const Images& images, Range unit, int64_t row, float* buffer)
      : first(reinterpret_cast<const uint16_t*>(images.row(unit.begin, row))),
        second(reinterpret_cast<const uint16_t*>(buffer)) {
    if (unit.size() == 2)
      second = reinterpret_cast<const uint16_t*>(images.row(unit.begin + 1, row));
    else
      memset(buffer, 0, static_cast<size_t>(images.size[1] * images.channels) * sizeof(uint16_t));
  }
  KERNEL_FN uint32_t unit(int64_t i) const { return first[i] | uint32_t{second[i]} << 16; }
  KERNEL_FN void store_vector(uint32_t* units, int64_t i) const {
    vector_at(units) = load_halves(first + i) | load_halves(second + i) << 16;
  }
};
#endif

// A block of rows of some units, packed: [vector of channels][unit][row][column][lane].
template <class F>
struct Packed {
  using Unit = typename F::Unit;

  Unit* data;
  Range rows;
  int64_t units, columns;

  int64_t plane() const { return units * rows.size() * columns * lane_count; }
  Unit* at(int64_t vector, int64_t unit, int64_t row) const {
    return data + vector * plane() + (unit * rows.size() + row - rows.begin) * columns * lane_count;
  }
};

// Packs the channels of `columns` positions, from element `number` on: a vector for each position.
template <class F>
typename F::Unit* pack_columns(typename F::Unit* out, const Row<F>& row, int64_t number,
                               int64_t columns, int64_t stride, int64_t channels) {
  if (channels >= lane_count) {
    for (int64_t i = 0; i < columns; ++i)
      row.store_vector(out + i * lane_count, number + i * stride);
  } else {
    for (int64_t i = 0; i < columns; ++i)
      for (int64_t c = 0; c < lane_count; ++c)
        out[i * lane_count + c] = c < channels ? row.unit(number + i * stride + c) : 0;
  }
  return out + columns * lane_count;
}

template <class Unit>
Unit* pack_zeros(Unit* out, int64_t columns) {
  memset(out, 0, sizeof(Unit) * static_cast<size_t>(columns * lane_count));
  return out + columns * lane_count;
}

// Packs a row from its column `first` on, with zeros outside of it.
template <class F>
void pack_row(const Packed<F>& packed, const Images& images, const Row<F>& row, int64_t unit,
              int64_t row_number, int64_t first) {
  const int64_t last = first + packed.columns, begin = smaller(larger(0, first), last);
  const int64_t end = larger(begin, smaller(images.size[1], last));
  for (int64_t vector = 0; vector < images.vectors(); ++vector) {
    const int64_t channel = vector * lane_count;
    auto* out = pack_zeros(packed.at(vector, unit, row_number), begin - first);
    out = pack_columns<F>(out, row, begin * images.channels + channel, end - begin, images.channels,
                          images.channels - channel);
    pack_zeros(out, last - end);
  }
}

template <class F>
void pack(const Packed<F>& packed, const Images& images, Range units, Range part, int64_t first,
          float* buffer) {
  for (int64_t unit = 0; unit < units.size(); ++unit) {
    const int64_t image = part.begin + (units.begin + unit) * F::per_unit;
    for (int64_t row = packed.rows.begin; row < packed.rows.end; ++row)
      pack_row<F>(packed, images,
                  {images, {image, smaller(part.end, image + F::per_unit)}, row, buffer}, unit, row,
                  first);
  }
}

// Taps of kernel row tap[0], from column tap[1] on, and the rows of g for which they are summed.
struct Taps {
  int64_t tap[2];
  Range rows;
};

// Adds a block's sums to sums (taps, outputs, lanes).
template <class F, int taps>
void add_tile(float* sums, const Work& work, const Packed<F>& x, const Packed<F>& g,
              int64_t channels, int64_t outputs, const Taps& at) {
  const Window2d& window = work.window;
  Vector<float> sum[tile_outputs][taps];
  FOR_TILE (o, tile_outputs)
    FOR_TILE (t, taps) sum[o][t] = vector_at(sums + t * tile_sums + o * lane_count);
  for (int64_t unit = 0; unit < g.units; ++unit)
    for (int64_t row = at.rows.begin; row < at.rows.end; ++row) {
      const auto* left = g.at(outputs / lane_count, unit, row) + outputs % lane_count;
      const auto* right =
          x.at(channels, unit, row * window.stride[0] + work.row_offset(at.tap[0])) +
          at.tap[1] * window.dilation[1] * lane_count;
      tile::multiply_add<F>(sum, tile::Left<F>{left, 1, lane_count}, right,
                            window.stride[1] * lane_count, g.columns,
                            window.dilation[1] * lane_count);
    }
  FOR_TILE (o, tile_outputs)
    FOR_TILE (t, taps) vector_at(sums + t * tile_sums + o * lane_count) = sum[o][t];
}

// Adds a block's sums to sums [output tile][vector of channels][tap][output][lane], for a kernel
// row.
template <class F>
void add_row(float* sums, const Work& work, const Packed<F>& x, const Packed<F>& g,
             int64_t kernel_row, Range rows) {
  const int64_t taps = work.window.kernel[1];
  for (int64_t outputs = 0; outputs < work.g.channels; outputs += tile_outputs)
    for (int64_t channels = 0; channels < work.x.vectors(); ++channels)
      for (int64_t tap = 0; tap < taps; tap += tile_taps) {
        tile::with_vectors<tile_taps>(taps - tap, [&](auto count) {
          add_tile<F, count.value>(sums, work, x, g, channels, outputs, {{kernel_row, tap}, rows});
        });
        sums += smaller(tile_taps, taps - tap) * tile_sums;
      }
}

// Sizes of the blocks in which the units of a part are packed.
template <class F>
struct Blocks {
  int64_t rows, units;

  Blocks(const Work& work, int64_t part_units) {
    const int64_t vector = lane_count * int64_t(sizeof(typename F::Unit));
    const int64_t row_bytes =
        vector * (work.x.vectors() * work.window.stride[0] * work.columns_read() +
                  work.g.vectors() * work.g.size[1]);
    rows = larger(1, smaller(work.g.size[0], block_bytes / row_bytes));
    units = larger(1, smaller(part_units, block_bytes / (row_bytes * work.g.size[0])));
  }
};

// A thread's memory for a block's packed images, and for a row of elements.
template <class F>
struct Room {
  typename F::Unit *x, *g;
  float* row;

  Room(const Work& work, const Blocks<F>& blocks) {
    thread_local Scratch packed, converted;
    const auto& [images, gradients, window] = work;
    const int64_t x_rows =
        smaller(images.size[0], (blocks.rows - 1) * window.stride[0] +
                                    work.row_offset(window.kernel[0] - 1) - work.row_offset(0) + 1);
    const int64_t x_units =
        blocks.units * images.vectors() * x_rows * work.columns_read() * lane_count;
    const int64_t g_units =
        blocks.units * gradients.vectors() * blocks.rows * gradients.size[1] * lane_count;
    x = packed.get<typename F::Unit>(x_units + g_units);
    g = x + x_units;
    row = converted.get<float>(
        larger(images.size[1] * images.channels, gradients.size[1] * gradients.channels));
  }
};

// Adds the sums over rows of g in some units of a part to sums [kernel row][..].
template <class F>
void add_block(float* sums, const Work& work, const Room<F>& room, Range part, Range units,
               Range rows) {
  const auto& [x, g, window] = work;
  const int64_t first = larger(0, rows.begin * window.stride[0] + work.row_offset(0));
  const int64_t end = smaller(
      x.size[0], (rows.end - 1) * window.stride[0] + work.row_offset(window.kernel[0] - 1) + 1);
  const Packed<F> packed_x = {
      room.x, {first, larger(first, end)}, units.size(), work.columns_read()};
  const Packed<F> packed_g = {room.g, rows, units.size(), g.size[1]};
  pack<F>(packed_x, x, units, part, -window.padding[1], room.row);
  pack<F>(packed_g, g, units, part, 0, room.row);
  for (int64_t i = 0; i < window.kernel[0]; ++i) {
    const Range reached = work.reached(i);
    add_row<F>(sums + i * work.row_sums(), work, packed_x, packed_g, i,
               {larger(reached.begin, rows.begin), smaller(reached.end, rows.end)});
  }
}

// Sets sums = the sums over the images of a part.
template <class F>
void sum_part(float* sums, const Work& work, Range images) {
  memset(sums, 0, sizeof(float) * static_cast<size_t>(work.sums()));
  const int64_t units = divided_up(images.size(), F::per_unit), rows = work.g.size[0];
  const Blocks<F> blocks(work, units);
  const Room<F> room(work, blocks);
  for (int64_t unit = 0; unit < units; unit += blocks.units)
    for (int64_t row = 0; row < rows; row += blocks.rows)
      add_block<F>(sums, work, room, images, {unit, smaller(units, unit + blocks.units)},
                   {row, smaller(rows, row + blocks.rows)});
}

// Sets dweight = the sum over all parts, which are added in order to the first.
void gather(const View& dweight, const Work& work, float* parts, int64_t count) {
  const int64_t sums = work.sums(), outputs = work.g.channels, channels = work.x.channels;
  const int64_t taps = work.window.kernel[1], vectors = work.x.vectors();
  const int64_t* strides = dweight.strides;
  for_each_range(sums / tile_sums, grain_for(count * tile_sums), [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* total = parts + i * tile_sums;
      for (int64_t part = 1; part < count; ++part)
        for_each_lane(tile_sums, [=](int64_t j) { total[j] += total[part * sums + j]; });
      const int64_t column = i % taps, channel = i / taps % vectors * lane_count;
      const int64_t output = i / taps / vectors % work.output_tiles() * tile_outputs;
      const int64_t row = i / taps / vectors / work.output_tiles();
      float* out = dweight.as<float>() + output * strides[0] + channel * strides[1] +
                   row * strides[2] + column * strides[3];
      for (int64_t o = 0; o < smaller(tile_outputs, outputs - output); ++o)
        for (int64_t c = 0; c < smaller(lane_count, channels - channel); ++c)
          out[o * strides[0] + c * strides[1]] = total[o * lane_count + c];
    }
  });
}

template <class F>
void sum_images(const View& dweight, const Work& work) {
  const int64_t images = work.x.count, units = divided_up(images, F::per_unit);
  const int64_t count = smaller(most_parts, units);
  const Workspace<float> room(count * work.sums());
  float* parts = room.data();
  const auto first = [=](int64_t part) {
    return smaller(images, units * part / count * F::per_unit);
  };
  for_each_block(count, [&](int64_t part) {
    sum_part<F>(parts + part * work.sums(), work, {first(part), first(part + 1)});
  });
  gather(dweight, work, parts, count);
}

}  // namespace

void conv2d_weight_loop(View dweight, View g, View x, Window2d window) {
  const Work work{Images(x), Images(g), window};
#ifdef __AVX512BF16__
  if (x.dtype == DType::bf16) return sum_images<tile::Bf16Pairs>(dweight, work);
#endif
  sum_images<tile::Plain<float>>(dweight, work);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
