// The hue of an image's colours, byte for byte as torchvision's adjust_hue on Pillow's images.
#pragma once

#include "core/data/images/image.h"

namespace booster {

// Shifts the hue by `factor` of the colour circle, -0.5 to 0.5; throws outside that. Grey images do
// not change.
Image adjust_hue(Image image, double factor);

}  // namespace booster
