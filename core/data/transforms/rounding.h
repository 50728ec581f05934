// Internal: rounding as in Python, and so in torchvision and timm.
#pragma once

#include <cmath>

namespace booster {

// Rounds half to even.
inline int rounded(double x) { return static_cast<int>(std::nearbyint(x)); }

}  // namespace booster
