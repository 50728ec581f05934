// What a rank sees of a run that has failed.
#pragma once

#include "kernels/system/error.h"

#include <doctest/doctest.h>

#include <string>

namespace booster {

// The text of the error that `action` throws; "" if none.
template <class Action>
std::string error_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::failed);
    return error.what();
  }
  return "";
}

inline bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace booster
