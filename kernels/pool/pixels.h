// Pooling of images in the memory order (n, h, w, c): a loop runs over the channels of a pixel.
// Blocks of work are rows of results, or, where gradients are added up, some channels of an image.
#pragma once

#include "kernels/pool/windows.h"
#include "kernels/walks/rows.h"

namespace booster::kernels::BOOSTER_VARIANT {

inline thread_local Scratch pixel_buffer, result_buffer;

// Returns true for memory in the order (n, h, w, c); other arguments of pooling are row-major.
inline bool lies_by_pixels(const View& x) { return !x.contiguous(); }

// Calls body(result, element, n, i, j) for each pixel (i, j) of each image n of y: fills `result`,
// the pixel's channels, which begin at `element` of y.
template <class Body>
void for_each_result_pixel(const View& y, int64_t window_size, Body&& body) {
  const Plane out = plane_of(y);
  const int64_t channels = y.shape[1];
  visit_compute(y.dtype, [&]<class C>(C*) {
    const int64_t grain = grain_for(out.width * channels * window_size);
    for_each_range(y.shape[0] * out.height, grain, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row)
        for (int64_t j = 0; j < out.width; ++j) {
          const int64_t element = (row * out.width + j) * channels;
          C* result = row_target(y, element, result_buffer.get<C>(channels));
          body(result, element, row / out.height, row % out.height, j);
          write_row(y, element, channels, result);
        }
    });
  });
}

// Keeps the larger of two pixels in each channel, the first of equal ones, and its place.
template <class C>
void keep_larger(C* best, int64_t* place, const C* other, int64_t at, int64_t channels) {
  for (int64_t c = 0; c < channels; ++c) {
    const bool is_larger = other[c] > best[c] || other[c] != other[c];
    best[c] = is_larger ? other[c] : best[c];
    place[c] = is_larger ? at : place[c];
  }
}

inline void max_pool_pixels(const View& y, const View& index, const View& x,
                            const Window2d& window) {
  const Plane in = plane_of(x);
  const int64_t channels = x.shape[1];
  for_each_result_pixel(
      y, window.kernel[0] * window.kernel[1],
      [&]<class C>(C* best, int64_t element, int64_t n, int64_t i, int64_t j) {
        int64_t* place = index.as<int64_t>() + element;
        bool is_first = true;
        for_each_place(places_under(window, i, j, in), [&](int64_t h, int64_t w) {
          const int64_t at = h * in.width + w;
          const C* pixel = read_row(x, (n * in.size() + at) * channels, channels,
                                    pixel_buffer.get<C>(channels));
          if (is_first)
            for (int64_t c = 0; c < channels; ++c) best[c] = pixel[c], place[c] = at;
          else
            keep_larger(best, place, pixel, at, channels);
          is_first = false;
        });
      });
}

// Computes y = mean of x over the windows range(axis, i).
template <class Ranges>
void average_pixels(const View& y, const View& x, Ranges&& range) {
  const Plane in = plane_of(x), out = plane_of(y);
  const int64_t channels = x.shape[1];
  const int64_t window_size = (in.size() + out.size() - 1) / out.size();
  for_each_result_pixel(
      y, window_size, [&]<class C>(C* sum, int64_t, int64_t n, int64_t i, int64_t j) {
        const Range rows = range(0, i), columns = range(1, j);
        for (int64_t c = 0; c < channels; ++c) sum[c] = C(0);
        for (int64_t h = rows.begin; h < rows.end; ++h)
          for (int64_t w = columns.begin; w < columns.end; ++w) {
            const C* pixel = read_row(x, (n * in.size() + h * in.width + w) * channels, channels,
                                      pixel_buffer.get<C>(channels));
            for (int64_t c = 0; c < channels; ++c) sum[c] += pixel[c];
          }
        const C count = C(rows.count * columns.count);
        for (int64_t c = 0; c < channels; ++c) sum[c] /= count;
      });
}

// Some channels of an image's gradient, which terms are added to: `stride` elements lie between the
// same channel of two pixels.
template <class C>
struct GradientChannels {
  C* sums;
  int64_t stride, first, count, image;
  C* at(int64_t place) const { return sums + place * stride; }
};

// Calls body(channels) for parts of dx, which begins at 0 and is written back after it.
template <class Body>
void for_each_gradient_part(const View& dx, Body&& body) {
  constexpr int64_t most_channels = 64;
  const int64_t size = plane_of(dx).size(), channels = dx.shape[1];
  const int64_t parts = (channels + most_channels - 1) / most_channels;
  visit_compute(dx.dtype, [&]<class C>(C*) {
    for_each_block(dx.shape[0] * parts, [&](int64_t block) {
      const int64_t image = block / parts, first = block % parts * most_channels;
      const int64_t count = smaller(channels - first, most_channels);
      C* sums = result_buffer.get<C>(size * count);
      for (int64_t k = 0; k < size * count; ++k) sums[k] = C(0);
      body(GradientChannels<C>{sums, count, first, count, image});
      for (int64_t place = 0; place < size; ++place)
        store_run(dx.as<char>() + ((image * size + place) * channels + first) * size_of(dx.dtype),
                  dx.dtype, 1, sums + place * count, count);
    });
  });
}

inline void max_pool_pixels_backward(const View& dx, const View& g, const View& index) {
  const int64_t results = plane_of(g).size(), channels = g.shape[1];
  for_each_gradient_part(dx, [&]<class C>(const GradientChannels<C>& part) {
    for (int64_t k = 0; k < results; ++k) {
      const int64_t element = (part.image * results + k) * channels + part.first;
      const C* terms = read_row(g, element, part.count, pixel_buffer.get<C>(part.count));
      const int64_t* place = index.as<const int64_t>() + element;
      for (int64_t c = 0; c < part.count; ++c) part.at(place[c])[c] += terms[c];
    }
  });
}

// Spreads each element of g evenly over its window of dx.
template <class Ranges>
void spread_pixels(const View& dx, const View& g, Ranges&& range) {
  const Plane out = plane_of(g), in = plane_of(dx);
  const int64_t channels = g.shape[1];
  for_each_gradient_part(dx, [&]<class C>(const GradientChannels<C>& part) {
    C share[64];
    for (int64_t k = 0; k < out.size(); ++k) {
      const Range rows = range(0, k / out.width), columns = range(1, k % out.width);
      const C* terms = read_row(g, (part.image * out.size() + k) * channels + part.first,
                                part.count, pixel_buffer.get<C>(part.count));
      for (int64_t c = 0; c < part.count; ++c) share[c] = terms[c] / C(rows.count * columns.count);
      for (int64_t h = rows.begin; h < rows.end; ++h)
        for (int64_t w = columns.begin; w < columns.end; ++w) {
          C* sum = part.at(h * in.width + w);
          for (int64_t c = 0; c < part.count; ++c) sum[c] += share[c];
        }
    }
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
