// The hue of an image's colours, byte for byte as torchvision's adjust_hue on Pillow's images.
#pragma once

#include "core/data/images/image.h"

namespace booster {

// Turns the hue by this part of the circle of colours, -0.5 to 0.5 (error beyond). Grey images have
// none.
Image adjust_hue(Image image, double factor);

}  // namespace booster
