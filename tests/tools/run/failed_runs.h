// How a rank sees a failed run.
#pragma once

#include "platform/error.h"

#include <doctest/doctest.h>

#include <string>

namespace booster {

// Returns the text of the failure that `action` throws; "" if none.
template <class Action>
std::string failure_of(Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::failed);
    return error.what();
  }
  return "";
}

}  // namespace booster
