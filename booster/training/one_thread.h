// OneThread: what was boosted together is used by one thread at a time. A second thread that calls
// it meanwhile gets an error instead of wrong numbers or a crash. Threads may take turns.
#pragma once

#include "platform/error.h"

#include <atomic>
#include <thread>

namespace booster {

class OneThread {
 public:
  // A call of the thread that uses it, or one within such a call. Error if another thread is in
  // one; `of`: what is called.
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
