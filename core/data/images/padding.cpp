#include "core/data/images/padding.h"

#include "platform/error.h"

#include <algorithm>
#include <cstring>

namespace booster {
namespace {

// Returns the index 0 ... n - 1 of the pixel shown at `at`, which may lie outside; -1 for the fill.
int source_of(int at, int n, PaddingMode mode) {
  if (at >= 0 && at < n) return at;
  switch (mode) {
    case PaddingMode::constant: return -1;
    case PaddingMode::edge: return std::clamp(at, 0, n - 1);
    case PaddingMode::reflect: {
      if (n == 1) return 0;
      const int period = 2 * (n - 1), place = (at % period + period) % period;
      return place < n ? place : period - place;
    }
    case PaddingMode::symmetric: {
      const int period = 2 * n, place = (at % period + period) % period;
      return place < n ? place : period - 1 - place;
    }
  }
  return -1;
}

void check_arguments(const Image& image, const Borders& borders, const Fill& fill) {
  check(std::min({borders.left, borders.top, borders.right, borders.bottom}) >= 0,
        "padding: a border is below 0; got {}, {}, {}, {}, want 0 or more (use crop to remove "
        "pixels)",
        borders.left, borders.top, borders.right, borders.bottom);
  const auto [least, most] = std::ranges::minmax(fill.values);
  check(least >= 0 && most <= 255, "padding: fill is not a byte; got {}, want 0 to 255",
        least < 0 ? least : most);
  check(
      !fill.is_color || image.channels() == 3,
      "padding: a grey image cannot have a colour as fill; want one number, or Gray2RGB before it");
}

}  // namespace

Image padded(const Image& image, const Borders& borders, PaddingMode mode, const Fill& fill) {
  check_arguments(image, borders, fill);
  const int channels = image.channels();
  Image out(image.width() + borders.left + borders.right,
            image.height() + borders.top + borders.bottom, channels);
  const std::array<uint8_t, 3> color = {static_cast<uint8_t>(fill.values[0]),
                                        static_cast<uint8_t>(fill.values[1]),
                                        static_cast<uint8_t>(fill.values[2])};
  for (int y = 0; y < out.height(); ++y) {
    const int row = source_of(y - borders.top, image.height(), mode);
    for (int x = 0; x < out.width(); ++x) {
      const int column = source_of(x - borders.left, image.width(), mode);
      const bool filled = row < 0 || column < 0;
      const uint8_t* from = filled ? color.data() : image.row(row) + column * channels;
      std::memcpy(out.row(y) + x * channels, from, static_cast<size_t>(channels));
    }
  }
  return out;
}

}  // namespace booster
