// Operations in the order of their issue, on a background thread of the host.
#pragma once

#include "parallel/operations/work.h"

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

namespace booster {

class WorkQueue {
 public:
  // What it leaves running on a device; null if it is complete.
  using Operation = std::function<std::shared_ptr<Completion>()>;

  // Its operations leave nothing running.
  WorkQueue() : WorkQueue([] { return false; }) {}
  // `look` is called by the thread between operations, and now and then while there are none as
  // long as it returns true: whether something is still running.
  explicit WorkQueue(std::function<bool()> look) : look_(std::move(look)) {}
  // Operations that have not begun are given up; their wait() throws.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  Work add(Operation operation);

 private:
  class Flag;
  struct Item {
    Operation operation;
    std::shared_ptr<Flag> flag;
  };
  void run();
  void run(Item item, bool is_given_up);

  std::function<bool()> look_;
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Item> items_;
  bool closing_ = false;
  std::thread thread_;  // started by the first operation
};

}  // namespace booster
