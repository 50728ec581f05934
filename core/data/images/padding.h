// Borders around an image. Distinct images may be used from distinct threads.
#pragma once

#include "core/data/images/image.h"

namespace booster {

// Pads like torchvision's pad on Pillow's images. Throws for a border below 0, a fill that is no
// byte, or a colour for a grey image.
Image padded(const Image& image, const Borders& borders,
             PaddingMode mode = PaddingMode::constant, const Fill& fill = 0);

}  // namespace booster
