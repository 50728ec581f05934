// Internal: how Python rounds, and so torchvision and timm.
#pragma once

#include <cmath>

namespace booster {

// Half to even.
inline int rounded(double x) { return static_cast<int>(std::nearbyint(x)); }

}  // namespace booster
