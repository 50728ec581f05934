// What the program prints on stdout. Text that cannot be written (a full disk behind a redirected
// log, a closed pipe) is lost, and stderr says so once: a training never ends for its log's sake.
// One thread.
#pragma once

#include <functional>
#include <string_view>

namespace example {

// To stdout, at once and unchanged.
void print(std::string_view text);

// Does what a training can do without. False after an Error of kind failed, which is a warning
// then, if `tells`; other errors pass.
bool attempt(const std::function<void()>& action, bool tells = true);

}  // namespace example
