// Colour changes of an image, with Pillow's results to the bit (ImageEnhance, ImageOps). Images of
// one channel count as grey images of three. Pure functions.
#pragma once

#include "core/data/images/image.h"

namespace booster {

// Interpolate between a degenerate image (factor 0) and the image itself (1), or extrapolate
// beyond. The degenerate images of these functions, in order: black; grey; uniform mean grey;
// smoothed.
Image adjust_brightness(Image image, double factor);
Image adjust_color(Image image, double factor);
Image adjust_contrast(Image image, double factor);
Image adjust_sharpness(Image image, double factor);

// Keeps the upper `bits` bits of each byte, 1 to 8.
Image posterize(Image image, int bits);
// Inverts bytes that are at least `threshold`.
Image solarize(Image image, double threshold);
// Maps each channel's darkest byte to 0 and its lightest to 255.
Image autocontrast(Image image);
// Makes each channel's bytes about equally frequent.
Image equalize(Image image);

}  // namespace booster
