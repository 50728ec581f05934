// The type of `{}` in `GradScaler({})`: options with none set.
#pragma once

#include <cstdint>

namespace booster {

// Without this type, empty braces would be ambiguous: default options, or a default-made object to
// copy. Braces become this enum by an identity conversion, so overload resolution prefers a
// constructor that takes it. Programs cannot pass it otherwise, because it has no named values.
enum class NoOptions : uint8_t {};

}  // namespace booster
