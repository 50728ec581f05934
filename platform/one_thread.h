// OneThread: ensures that an object is used by one thread at a time. A second thread's call
// meanwhile throws instead of giving wrong values, a crash or a hang. Threads may take turns.
#pragma once

#include "platform/error.h"

#include <atomic>
#include <thread>

namespace booster {

class OneThread {
 public:
  // Words for errors: "OWNER: two threads call WITH at once; got a call of OF, want one thread at a
  // time, or EACH for each". Scopes give OF.
  OneThread(const char* owner, const char* with, const char* each)
      : owner_(owner), with_(with), each_(each) {}

  // A call by the current thread, or one nested within such a call. Throws if another thread is in
  // a call; `of` names the called object.
  class Scope {
   public:
    Scope(OneThread& user, const char* of) : user_(user) {
      std::thread::id none;
      if (user_.thread_.compare_exchange_strong(none, std::this_thread::get_id()))
        is_first_ = true;
      else if (none != std::this_thread::get_id())
        fail("{}: two threads call {} at once; got a call of {}, want one thread at a time, or {} "
             "for each",
             user_.owner_, user_.with_, of, user_.each_);
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
  const char *owner_, *with_, *each_;
  std::atomic<std::thread::id> thread_{};
};

}  // namespace booster
