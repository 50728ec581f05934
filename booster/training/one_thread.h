// OneThread: ensures that handles that were boosted together are used by one thread at a time. A
// second thread's call meanwhile throws instead of giving wrong values or a crash. Threads may take
// turns.
#pragma once

#include "platform/error.h"

#include <atomic>
#include <thread>

namespace booster {

class OneThread {
 public:
  // A call by the current thread, or one nested within such a call. Throws if another thread is in
  // a call; `of` names what is called.
  class Scope {
   public:
    Scope(OneThread& user, const char* of) : user_(user) {
      std::thread::id none;
      if (user_.thread_.compare_exchange_strong(none, std::this_thread::get_id()))
        is_first_ = true;
      else if (none != std::this_thread::get_id())
        fail(
            "booster: the boosted {} is called while another thread is in a call of what was "
            "boosted with it; got two threads at once, want one at a time, or a model for each",
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
