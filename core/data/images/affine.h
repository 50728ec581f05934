// Affine maps of images, with Pillow's results to the bit (Image.transform, Image.rotate). Pure
// functions.
#pragma once

#include "core/data/images/image.h"

#include <array>

namespace booster {

enum class AffineFilter { nearest, bilinear };

// Where a pixel comes from: x' = m[0] x + m[1] y + m[2], y' = m[3] x + m[4] y + m[5], for the
// centres of pixels.
using AffineMap = std::array<double, 6>;

// An image of the same size; `fill`, in every channel, where nothing comes from.
Image affine(const Image& image, const AffineMap& map, AffineFilter filter, uint8_t fill = 0);

// Of a rotation about the image's middle, counter-clockwise by `degrees`, as Image.rotate has it.
AffineMap rotation(double degrees, int width, int height);

}  // namespace booster
