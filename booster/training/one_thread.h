// OneThread: ensures that only one thread at a time uses handles that were boosted together. A
// simultaneous call of a second thread throws instead of giving wrong values or a crash. Threads
// may take turns.
#pragma once

#include "platform/error.h"

#include <atomic>
#include <thread>

namespace booster {

class OneThread {
 public:
  // A call by the current thread, or one nested within such a call. Throws if another thread is in
  // a call; `of` names the called object.
  class Scope {
   public:
    Scope(OneThread& user, const char* of) : user_(user) {
      std::thread::id none;
      if (user_.thread_.compare_exchange_strong(none, std::this_thread::get_id()))
        is_first_ = true;
      else if (none != std::this_thread::get_id())
        fail(
            "booster: two threads call objects of one boost at once; got a call of the boosted {}, "
            "want one thread at a time, or a model for each",
            of);
    }
    ~Scope() {
      if (is_first_) user_.thread_.store({});
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    OneThread& user_;
    bool is_first_ = false;
  };

 private:
  std::atomic<std::thread::id> thread_{};
};

}  // namespace booster
