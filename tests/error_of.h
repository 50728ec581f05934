// Checks of error texts.
#pragma once

#include "platform/error.h"

#include <functional>
#include <string>

namespace booster {

// Returns the text of the Error that `call` throws; "" if it throws none.
inline std::string error_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != text.npos;
}

}  // namespace booster
