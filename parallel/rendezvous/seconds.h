// Durations that environment variables give in seconds.
#pragma once

#include <chrono>

namespace booster {

// Returns `standard` seconds if the variable is unset or empty. Throws an error that names it
// unless it is a number above 0 or, with `may_be_never`, 0 or a number of at least 1.
std::chrono::milliseconds seconds_variable(const char* name, double standard,
                                           bool may_be_never = false);

}  // namespace booster
