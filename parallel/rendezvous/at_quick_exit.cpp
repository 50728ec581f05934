#include "parallel/rendezvous/at_quick_exit.h"

#include <cstdlib>
#include <mutex>
#include <set>

namespace booster {

namespace {

struct Registry {
  std::mutex mutex;
  std::set<AtQuickExit*> present;
};
Registry& registry() {
  static Registry* const made = new Registry;  // outlives every destructor
  return *made;
}

}  // namespace

AtQuickExit::AtQuickExit(std::function<void()> action) : action_(std::move(action)) {
  std::lock_guard lock(registry().mutex);
  static const int registered = std::at_quick_exit(call_all);
  (void)registered;
  registry().present.insert(this);
}

AtQuickExit::~AtQuickExit() {
  std::lock_guard lock(registry().mutex);
  registry().present.erase(this);
}

void AtQuickExit::call_all() {
  std::lock_guard lock(registry().mutex);
  for (AtQuickExit* each : registry().present) each->action_();
}

}  // namespace booster
