#include "parallel/operations/work_queue.h"

#include "parallel/operations/completion.h"
#include "platform/blocked_signals.h"
#include "platform/error.h"
#include "platform/system_limits.h"
#include "platform/trace.h"

#include <omp.h>

#include <chrono>
#include <exception>
#include <utility>

namespace booster {

constexpr auto look_every = std::chrono::milliseconds(2);

class WorkQueue::Flag : public Completion {
 public:
  void order(kernels::Stream stream) override {
    wait();
    if (running_) running_->order(stream);
  }

  void synchronize() override {
    wait();
    if (running_) running_->synchronize();
  }

  bool is_done() override {
    std::lock_guard lock(mutex_);
    return done_ && (!running_ || running_->is_done());
  }

  void finish(std::exception_ptr error, std::shared_ptr<Completion> running) {
    std::lock_guard lock(mutex_);
    error_ = std::move(error);
    running_ = std::move(running);
    done_ = true;
    finished_.notify_all();
  }

 private:
  void wait() {
    const kernels::TraceScope span("wait for ranks", kernels::SpanKind::collective);
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return done_; });
    if (error_) std::rethrow_exception(error_);
  }

  std::mutex mutex_;
  std::condition_variable finished_;
  bool done_ = false;
  std::exception_ptr error_;
  std::shared_ptr<Completion> running_;  // the part left running on a device; set once
};

WorkQueue::~WorkQueue() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  arrived_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Work WorkQueue::add(Operation operation) {
  const auto flag = std::make_shared<Flag>();
  std::lock_guard lock(mutex_);
  items_.push_back({std::move(operation), flag});
  if (!thread_.joinable()) {
    const kernels::BlockedSignals guard;
    thread_ = start_thread("Group: its thread", [this] { run(); });
  }
  arrived_.notify_one();
  return Work(flag);
}

void WorkQueue::run(Item item, bool is_given_up) {
  std::exception_ptr error;
  std::shared_ptr<Completion> running;
  try {
    if (is_given_up)
      throw Error("the group was closed before the operation began", ErrorKind::failed);
    running = item.operation();
  } catch (...) {
    error = std::current_exception();
  }
  item.operation = nullptr;  // frees its memory, possibly before the waiter returns
  item.flag->finish(error, running);
}

void WorkQueue::run() {
  omp_set_num_threads(1);  // the cores belong to the computing thread
  std::unique_lock lock(mutex_);
  for (;;) {
    lock.unlock();
    const bool is_running = look_();
    lock.lock();
    const auto is_wanted = [&] { return closing_ || !items_.empty(); };
    if (is_running)
      arrived_.wait_for(lock, look_every, is_wanted);
    else
      arrived_.wait(lock, is_wanted);
    if (items_.empty() && closing_) return;
    if (items_.empty()) continue;
    Item item = std::move(items_.front());
    items_.pop_front();
    const bool is_given_up = closing_;
    lock.unlock();
    run(std::move(item), is_given_up);
    lock.lock();
  }
}

}  // namespace booster
