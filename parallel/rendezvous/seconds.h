// A time that an environment variable gives in seconds.
#pragma once

#include <chrono>

namespace booster {

// `standard` seconds if the variable is not set or empty. Error that names it unless it is a number
// above 0, or, with `may_be_never`, 0 or a number from 1 on.
std::chrono::milliseconds seconds_variable(const char* name, double standard,
                                           bool may_be_never = false);

}  // namespace booster
