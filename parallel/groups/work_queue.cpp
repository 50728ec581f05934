#include "parallel/groups/work_queue.h"

#include "kernels/system/blocked_signals.h"
#include "kernels/system/error.h"
#include "kernels/system/trace.h"

#include <omp.h>

#include <exception>
#include <utility>

namespace booster {

class WorkQueue::Flag : public Completion {
 public:
  void order(kernels::Stream) override { synchronize(); }

  void synchronize() override {
    const kernels::TraceScope span("wait for ranks", kernels::SpanKind::collective);
    std::unique_lock lock(mutex_);
    finished_.wait(lock, [&] { return done_; });
    if (error_) std::rethrow_exception(error_);
  }

  bool is_done() override {
    std::lock_guard lock(mutex_);
    return done_;
  }

  void finish(std::exception_ptr error) {
    std::lock_guard lock(mutex_);
    error_ = std::move(error);
    done_ = true;
    finished_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable finished_;
  bool done_ = false;
  std::exception_ptr error_;
};

WorkQueue::~WorkQueue() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  arrived_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Work WorkQueue::add(std::function<void()> operation) {
  const auto flag = std::make_shared<Flag>();
  std::lock_guard lock(mutex_);
  items_.push_back({std::move(operation), flag});
  if (!thread_.joinable()) {
    const kernels::BlockedSignals guard;
    thread_ = std::thread([this] { run(); });
  }
  arrived_.notify_one();
  return Work(flag);
}

void WorkQueue::run() {
  omp_set_num_threads(1);  // the cores belong to the thread that computes
  const auto closed = std::make_exception_ptr(
      Error("the group was closed before the operation began", ErrorKind::failed));
  std::unique_lock lock(mutex_);
  for (;;) {
    arrived_.wait(lock, [&] { return closing_ || !items_.empty(); });
    if (items_.empty()) return;
    Item item = std::move(items_.front());
    items_.pop_front();
    const bool given_up = closing_;
    lock.unlock();
    std::exception_ptr error = given_up ? closed : nullptr;
    try {
      if (!given_up) item.operation();
    } catch (...) {
      error = std::current_exception();
    }
    item.operation = nullptr;  // what it kept alive may go before the waiter does
    item.flag->finish(error);
    lock.lock();
  }
}

}  // namespace booster
