// Operations in the order of their issue, on a background thread of the host.
#pragma once

#include "parallel/groups/work.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace booster {

class WorkQueue {
 public:
  WorkQueue() = default;
  // Operations that have not begun are given up; their wait() throws.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  Work add(std::function<void()> operation);

 private:
  class Flag;
  struct Item {
    std::function<void()> operation;
    std::shared_ptr<Flag> flag;
  };
  void run();

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Item> items_;
  bool closing_ = false;
  std::thread thread_;  // started by the first operation
};

}  // namespace booster
