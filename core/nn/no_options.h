// What a program passes with `TorchDDPPlugin({})`: options of which none is set.
#pragma once

#include <cstdint>

namespace booster {

// Braces that hold nothing could be options, or an object to copy that was made without any, and a
// compiler must not choose. They convert to this without a conversion, so that a constructor that
// takes it is preferred. It has no values to be given otherwise.
enum class NoOptions : uint8_t {};

}  // namespace booster
