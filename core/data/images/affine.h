// Affine maps of images, with Pillow's results to the bit (Image.transform, Image.rotate). Pure
// functions.
#pragma once

#include "core/data/images/image.h"

#include <array>

namespace booster {

// The source (x', y') of a pixel (x, y), both at pixel centres:
//   x' = m[0] x + m[1] y + m[2]
//   y' = m[3] x + m[4] y + m[5]
using AffineMap = std::array<double, 6>;

// Returns an image of the same size; pixels with no source get `fill` in every channel.
Image affine(const Image& image, const AffineMap& map, AffineFilter filter, uint8_t fill = 0);

// Returns the rotation about the image's centre by `degrees` counter-clockwise, as Image.rotate.
AffineMap rotation(double degrees, int width, int height);

}  // namespace booster
