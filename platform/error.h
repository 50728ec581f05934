// The project's only exception type and the calls that raise it.
//
// Text has the form `what: what is wrong; got X, want Y`. User mistakes always raise it: never an
// assert, never a warning that continues, never exit(). All functions are thread-safe.
#pragma once

#include <fmt/core.h>

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace booster {

enum class ErrorKind {
  usage,   // a wrong call, option or config: exit code 2
  data,    // bad input files: exit code 1
  failed,  // the run itself failed (a rank died, the disk is full): exit code 1
};

class Error : public std::runtime_error {
 public:
  explicit Error(const std::string& text, ErrorKind kind = ErrorKind::usage)
      : std::runtime_error(text), kind_(kind) {}
  ErrorKind kind() const { return kind_; }
  // Returns the exit code of a program that ends with this error.
  int exit_code() const { return kind_ == ErrorKind::usage ? 2 : 1; }

 private:
  ErrorKind kind_;
};

[[noreturn]] void raise(ErrorKind kind, std::string text);

// Throws Error of kind usage.
template <class... T>
[[noreturn]] void fail(fmt::format_string<T...> format, T&&... args) {
  raise(ErrorKind::usage, fmt::vformat(format, fmt::make_format_args(args...)));
}

template <class... T>
[[noreturn]] void fail_data(fmt::format_string<T...> format, T&&... args) {
  raise(ErrorKind::data, fmt::vformat(format, fmt::make_format_args(args...)));
}

template <class... T>
[[noreturn]] void fail_run(fmt::format_string<T...> format, T&&... args) {
  raise(ErrorKind::failed, fmt::vformat(format, fmt::make_format_args(args...)));
}

template <class... T>
void check(bool ok, fmt::format_string<T...> format, T&&... args) {
  if (!ok) [[unlikely]]
    raise(ErrorKind::usage, fmt::vformat(format, fmt::make_format_args(args...)));
}

// Returns the tail of an error about a wrong name: "; want one of a, b, c (did you mean b?)".
// Suggests the nearest name if its distance is at most a third of its length (Damerau-Levenshtein
// distance).
std::string legal_names(std::string_view got, const std::vector<std::string>& legal);

// Returns the nearest legal name, or "" if none is near.
std::string nearest_name(std::string_view got, const std::vector<std::string>& legal);

}  // namespace booster
