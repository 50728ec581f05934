#include "core/autograd/observer.h"

namespace booster {

std::atomic<OpObserver*> op_observer = nullptr;

namespace {
thread_local bool unobserved_now = false;
}

UnobservedScope::UnobservedScope(bool unobserved) : before_(unobserved_now) {
  unobserved_now = unobserved;
}
UnobservedScope::~UnobservedScope() { unobserved_now = before_; }
bool is_unobserved() { return unobserved_now; }

}  // namespace booster
