// Errors about the limits that a system sets to a process. Thread-safe.
#pragma once

#include "platform/error.h"

#include <exception>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace booster {

// Returns the error's text. Where the system or the library ran short of memory, threads or files
// and says no more, the text names the limit.
std::string text_of_error(const std::exception& error);

// Starts a thread. Throws an Error of kind failed that begins with `purpose` and names the limit if
// the system refuses another thread.
template <class... Args>
std::thread start_thread(const char* purpose, Args&&... args) {
  try {
    return std::thread(std::forward<Args>(args)...);
  } catch (const std::system_error& error) {
    fail_run("{}: {}", purpose, text_of_error(error));
  }
}

}  // namespace booster
