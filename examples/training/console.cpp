#include "examples/training/console.h"

#include <booster/booster.h>
#include <fmt/format.h>

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>

#include <stdio_ext.h>

namespace example {

void print(std::string_view text) {
  // A pipe without a reader then makes the write below fail instead of ending the process.
  [[maybe_unused]] static const auto before = std::signal(SIGPIPE, SIG_IGN);
  static bool told = false;
  std::fwrite(text.data(), 1, text.size(), stdout);
  if (std::fflush(stdout) == 0) return;
  const int reason = errno;
  __fpurge(stdout);  // or every later line would retry this one
  std::clearerr(stdout);
  if (!std::exchange(told, true))
    booster::warn(fmt::format("stdout: cannot be written: {}; the training goes on without it",
                              std::strerror(reason)));
}

bool attempt(const std::function<void()>& action, bool tells) {
  try {
    action();
    return true;
  } catch (const booster::Error& error) {
    if (error.kind() != booster::ErrorKind::failed) throw;
    if (tells) booster::warn(fmt::format("warning: {}; the training goes on", error.what()));
    return false;
  }
}

}  // namespace example
