// Reads environment variables: as text, as a flag, as a number. Thread-safe while the program sets
// none.
#pragma once

#include "platform/decimal.h"

#include <cmath>
#include <cstdlib>
#include <string>

namespace booster::environment {

// Returns whether a variable is set; it may be empty.
inline bool is_set(const std::string& name) { return std::getenv(name.c_str()) != nullptr; }

// Returns the variable's text; "" if it is not set.
inline std::string text(const std::string& name) {
  const char* value = std::getenv(name.c_str());
  return value ? value : "";
}

// Returns false if the text begins with 0, `standard` if the variable is empty or not set, and true
// for anything else.
inline bool flag(const std::string& name, bool standard = false) {
  const std::string value = text(name);
  return value.empty() ? standard : value[0] != '0';
}

// Returns the variable's number: `standard` if it is empty or not set, nan if it is no number.
inline double number(const std::string& name, double standard) {
  const std::string value = text(name);
  return value.empty() ? standard : decimal_number(value).value_or(NAN);
}

}  // namespace booster::environment
