// Changes of an image's colours, with Pillow's results to the bit (ImageEnhance, ImageOps). Images
// of one channel count as grey ones of three. Pure functions.
#pragma once

#include "core/data/images/image.h"

namespace booster {

// Between a degenerate image (0) and the image itself (1), and beyond: black, grey, of the mean
// grey, and smoothed.
Image adjust_brightness(Image image, double factor);
Image adjust_color(Image image, double factor);
Image adjust_contrast(Image image, double factor);
Image adjust_sharpness(Image image, double factor);

// Keeps the upper bits, 1 to 8, of each byte.
Image posterize(Image image, int bits);
// Inverts bytes from `threshold` on.
Image solarize(Image image, double threshold);
// Each channel's darkest byte becomes 0, its lightest 255.
Image autocontrast(Image image);
// Each channel's bytes become about equally frequent.
Image equalize(Image image);

}  // namespace booster
