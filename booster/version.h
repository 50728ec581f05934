// The version of these headers. A library that adds to booster is refused by another version.
#pragma once

namespace booster {

inline constexpr char version[] = "0.1.0";

}  // namespace booster
