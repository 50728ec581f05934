// The gradient of a convolution's weight, of images with their channels last: at each position of g
// the products of some channels of x and 16 outputs are added to sums in registers. Images are cut
// into parts by their number alone, so the bits are the same for any number of threads.
//
// One pass over the positions costs few loads per sum, so what counts is that those of a block of
// positions stay in the caches while all sums pass over them.
#include "kernels/catalogue.h"
#include "kernels/workspace.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

typedef float Vector __attribute__((vector_size(32), aligned(4), may_alias));
constexpr int64_t lanes = sizeof(Vector) / sizeof(float);
constexpr int64_t tile_outputs = 2 * lanes;

constexpr int64_t most_parts = 16;
constexpr int64_t block_positions = 512;

constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

// At any address of a float.
Vector load(const float* p) { return *reinterpret_cast<const Vector*>(p); }
void store(float* p, const Vector& numbers) { *reinterpret_cast<Vector*>(p) = numbers; }

struct Range {
  int64_t begin, end;
};

// Images of one size, channels last.
struct Images {
  const float* data;
  int64_t count, channels, size[2];

  explicit Images(const View& view)
      : data(view.as<const float>()),
        count(view.shape[0]),
        channels(view.shape[1]),
        size{view.shape[2], view.shape[3]} {}
  const float* at(int64_t image, int64_t row, int64_t column) const {
    return data + ((image * size[0] + row) * size[1] + column) * channels;
  }
};

struct Work {
  Images x, g;
  Window2d window;

  int64_t sums() const { return window.kernel[0] * window.kernel[1] * x.channels * g.channels; }
  // From a position of g, times the stride, to the one of x that the tap reads.
  int64_t offset(int64_t tap, int axis) const {
    return tap * window.dilation[axis] - window.padding[axis];
  }
  // The positions of g for which that one lies within x.
  Range reached(int64_t tap, int axis) const {
    const int64_t stride = window.stride[axis], first = -offset(tap, axis),
                  last = first + x.size[axis] - 1;
    return {first > 0 ? (first + stride - 1) / stride : 0,
            last < 0 ? 0 : smaller(g.size[axis], last / stride + 1)};
  }
};

// A tap of the kernel, and the images, rows and columns of g for which it is summed.
struct Positions {
  int64_t tap[2];
  Range images, rows, columns;
};

// sums (channels x 16, `g.channels` apart) += products of x's channels from `channel` on and g's
// outputs from `output` on.
template <int channels>
void add_tile(float* sums, const Work& work, const Positions& at, int64_t channel, int64_t output) {
  const auto& [x, g, window] = work;
  const int64_t x_step = window.stride[1] * x.channels, g_step = g.channels;
  Vector total[channels][2];
  for (int c = 0; c < channels; ++c)
    for (int v = 0; v < 2; ++v) total[c][v] = load(sums + c * g.channels + v * lanes);
  for (int64_t image = at.images.begin; image < at.images.end; ++image)
    for (int64_t row = at.rows.begin; row < at.rows.end; ++row) {
      const float* left = x.at(image, row * window.stride[0] + work.offset(at.tap[0], 0),
                               at.columns.begin * window.stride[1] + work.offset(at.tap[1], 1)) +
                          channel;
      const float* right = g.at(image, row, at.columns.begin) + output;
      for (int64_t n = at.columns.end - at.columns.begin; n > 0; --n) {
        const Vector first = load(right), second = load(right + lanes);
        for (int c = 0; c < channels; ++c) {
          total[c][0] += left[c] * first;
          total[c][1] += left[c] * second;
        }
        left += x_step;
        right += g_step;
      }
    }
  for (int c = 0; c < channels; ++c)
    for (int v = 0; v < 2; ++v) store(sums + c * g.channels + v * lanes, total[c][v]);
}

// Tiles of 6 channels use all registers; those of 4 take what is left of an even number.
void add_tap(float* sums, const Work& work, const Positions& at) {
  const int64_t channels = work.x.channels, fours = channels % 6 == 4 ? 1 : channels % 6;
  for (int64_t output = 0; output < work.g.channels; output += tile_outputs)
    for (int64_t channel = 0; channel < channels;) {
      float* tile = sums + channel * work.g.channels + output;
      const bool six = channel + 4 * fours < channels;
      (six ? add_tile<6> : add_tile<4>)(tile, work, at, channel, output);
      channel += six ? 6 : 4;
    }
}

// sums (kernel rows, kernel columns, x's channels, g's channels) = those of the images.
void sum_part(float* sums, const Work& work, Range images) {
  const auto& [x, g, window] = work;
  for (int64_t i = 0; i < work.sums(); ++i) sums[i] = 0;
  const int64_t rows_at_once = larger(1, smaller(g.size[0], block_positions / g.size[1]));
  const int64_t images_at_once = larger(1, block_positions / (g.size[0] * g.size[1]));
  for (int64_t image = images.begin; image < images.end; image += images_at_once)
    for (int64_t row = 0; row < g.size[0]; row += rows_at_once) {
      float* tap_sums = sums;
      for (int64_t i = 0; i < window.kernel[0]; ++i) {
        const Range rows = work.reached(i, 0);
        for (int64_t j = 0; j < window.kernel[1]; ++j) {
          add_tap(tap_sums, work,
                  {.tap = {i, j},
                   .images = {image, smaller(images.end, image + images_at_once)},
                   .rows = {larger(rows.begin, row), smaller(rows.end, row + rows_at_once)},
                   .columns = work.reached(j, 1)});
          tap_sums += x.channels * g.channels;
        }
      }
    }
}

// dweight = the parts' sums, added in their order to the first part's.
void gather(const View& dweight, const Work& work, float* parts, int64_t count) {
  const int64_t* strides = dweight.strides;
  const int64_t sums = work.sums(), outputs = work.g.channels, channels = work.x.channels;
  for_each_range(sums / outputs, grain_for(count * outputs), [=](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float* total = parts + i * outputs;
      for (int64_t part = 1; part < count; ++part)
        for_each_lane(outputs, [=](int64_t o) { total[o] += total[part * sums + o]; });
      const int64_t tap = i / channels, row = tap / dweight.shape[3],
                    column = tap % dweight.shape[3];
      float* out =
          dweight.as<float>() + i % channels * strides[1] + row * strides[2] + column * strides[3];
      for (int64_t o = 0; o < outputs; ++o) out[o * strides[0]] = total[o];
    }
  });
}

}  // namespace

void conv2d_weight_loop(View dweight, View g, View x, Window2d window) {
  const Work work{Images(x), Images(g), window};
  const int64_t images = work.x.count, count = smaller(most_parts, images);
  const Workspace<float> room(count * work.sums());
  float* parts = room.data();
  for_each_block(count, [&](int64_t part) {
    sum_part(parts + part * work.sums(), work,
             {images * part / count, images * (part + 1) / count});
  });
  gather(dweight, work, parts, count);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
