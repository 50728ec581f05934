// The program's output on stdout. Text that cannot be written (a full disk under a redirected log,
// a closed pipe) is lost, and stderr reports that once: logging never ends a training. For one
// thread.
#pragma once

#include <functional>
#include <string_view>

namespace example {

// Prints to stdout, unchanged and unbuffered.
void print(std::string_view text);

// Runs an optional action. After an Error of kind failed it returns false and, if `tells`, warns;
// other errors propagate.
bool attempt(const std::function<void()>& action, bool tells = true);

}  // namespace example
