// Runs operations in issue order on a background thread of the host.
#pragma once

#include "parallel/operations/completion.h"
#include "parallel/operations/operation.h"

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
  // Returns the part that still runs on a device; null if the operation is complete.
  using Operation = std::function<std::shared_ptr<Completion>()>;

  // For operations that leave nothing running.
  WorkQueue() : WorkQueue([] { return false; }) {}
  // `look` returns true while work still runs on a device. The thread calls it between operations,
  // and while idle as long as it returns true.
  explicit WorkQueue(std::function<bool()> look) : look_(std::move(look)) {}
  // Abandons operations that have not begun; their wait() throws.
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
  std::thread thread_;  // the first operation starts it
};

}  // namespace booster
