// Runs actions when a program ends by quick_exit(), which calls no destructors.
#pragma once

#include <functional>

namespace booster {

// Calls `action` if the program ends by quick_exit() while this lives. Thread-safe.
class AtQuickExit {
 public:
  explicit AtQuickExit(std::function<void()> action);
  ~AtQuickExit();
  AtQuickExit(const AtQuickExit&) = delete;

 private:
  std::function<void()> action_;
  static void call_all();
};

}  // namespace booster
