#include "platform/warn.h"

#include <cstdio>
#include <new>
#include <string>

namespace booster {

void warn(std::string_view text) noexcept {
  try {
    const std::string lines = terminal_lines(text) + "\n";
    std::fwrite(lines.data(), 1, lines.size(), stderr);
  } catch (const std::bad_alloc&) {
  }
}

}  // namespace booster
