// Borders around an image. Distinct images may be used from distinct threads.
#pragma once

#include "core/data/images/image.h"

#include <array>

namespace booster {

// torchvision's names. The row 1 2 3 4 with two pixels added on each side:
enum class PaddingMode {
  constant,   // f f 1 2 3 4 f f, where f is the fill
  edge,       // 1 1 1 2 3 4 4 4
  reflect,    // 3 2 1 2 3 4 3 2
  symmetric,  // 2 1 1 2 3 4 4 3
};

// The number of pixels to add at each side.
struct Borders {
  int left = 0, top = 0, right = 0, bottom = 0;
  Borders() = default;
  Borders(int all) : Borders(all, all) {}  // NOLINT: 4 is a border
  Borders(int sides, int top_and_bottom) : Borders(sides, top_and_bottom, sides, top_and_bottom) {}
  Borders(int left, int top, int right, int bottom)
      : left(left), top(top), right(right), bottom(bottom) {}
};

// The colour of a constant border: one value for all channels, or red, green and blue.
struct Fill {
  std::array<int, 3> values;
  bool is_color;
  Fill(int all) : values{all, all, all}, is_color(false) {}  // NOLINT: 128 is a grey
  Fill(int red, int green, int blue) : values{red, green, blue}, is_color(true) {}
};

// As torchvision's pad on Pillow's images. Throws for a border below 0, a fill that is no byte, or
// a colour for a grey image.
Image padded(const Image& image, const Borders& borders,
             PaddingMode mode = PaddingMode::constant, const Fill& fill = 0);

}  // namespace booster
