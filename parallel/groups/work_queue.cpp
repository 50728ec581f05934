#include "parallel/groups/work_queue.h"

#include "kernels/system/error.h"
#include "kernels/system/trace.h"

#include <omp.h>
#include <signal.h>

namespace booster {

struct Work::State {
  std::mutex mutex;
  std::condition_variable finished;
  bool done = false;
  std::exception_ptr error;

  void finish(std::exception_ptr result) {
    std::lock_guard lock(mutex);
    error = std::move(result);
    done = true;
    finished.notify_all();
  }
};

void Work::wait() const {
  if (!state_) return;
  const kernels::TraceScope span("wait for ranks", kernels::SpanKind::collective);
  std::unique_lock lock(state_->mutex);
  state_->finished.wait(lock, [&] { return state_->done; });
  if (state_->error) std::rethrow_exception(state_->error);
}

bool Work::is_done() const {
  if (!state_) return true;
  std::lock_guard lock(state_->mutex);
  return state_->done;
}

WorkQueue::~WorkQueue() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  arrived_.notify_all();
  if (thread_.joinable()) thread_.join();
}

Work WorkQueue::add(std::function<void()> operation) {
  Work work;
  work.state_ = std::make_shared<Work::State>();
  std::lock_guard lock(mutex_);
  items_.push_back({std::move(operation), work.state_});
  if (!thread_.joinable()) {
    // The program's signal handlers run on its own threads.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    thread_ = std::thread([this] { run(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  arrived_.notify_one();
  return work;
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
    item.state->finish(error);
    lock.lock();
  }
}

}  // namespace booster
