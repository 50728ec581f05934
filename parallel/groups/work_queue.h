// Operations in the order of their issue, on a background thread; `Work` is the receipt for one.
#pragma once

#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace booster {

// Copies share one operation. Thread-safe. Until wait() returns, what the operation writes must be
// neither read nor written, and what it reads must not change.
class Work {
 public:
  // A finished operation.
  Work() = default;
  // Whatever the caller does next on the buffers' device sees the result. In host memory that means
  // it blocks until the operation is complete; on a device with streams it need not. Throws the
  // operation's error, every time.
  void wait() const;
  // True once the operation is complete or has failed; then wait() does not block.
  bool is_done() const;

 private:
  friend class WorkQueue;
  struct State;
  std::shared_ptr<State> state_;
};

class WorkQueue {
 public:
  WorkQueue() = default;
  // Operations that have not begun are given up; their wait() throws.
  ~WorkQueue();
  WorkQueue(const WorkQueue&) = delete;
  WorkQueue& operator=(const WorkQueue&) = delete;

  Work add(std::function<void()> operation);

 private:
  struct Item {
    std::function<void()> operation;
    std::shared_ptr<Work::State> state;
  };
  void run();

  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Item> items_;
  bool closing_ = false;
  std::thread thread_;  // started by the first operation
};

}  // namespace booster
