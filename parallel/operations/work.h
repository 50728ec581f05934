// Work: the receipt for an operation that runs while the program goes on.
#pragma once

#include "kernels/host/stream.h"

#include <memory>
#include <utility>

namespace booster {

// How a backend says that an operation is complete: a flag of its own thread (work_queue.h) or an
// event on a device's stream. Thread-safe.
class Completion {
 public:
  virtual ~Completion() = default;
  // Work put into `stream` from now on sees the result. Only the host has to wait for that on its
  // own thread; an event is left in the stream. Throws the operation's error if it is known.
  virtual void order(kernels::Stream stream) = 0;
  // The calling thread blocks until the operation is complete. Throws its error, every time.
  virtual void synchronize() = 0;
  // True once the operation is complete or has failed; then synchronize() does not block.
  virtual bool is_done() = 0;
};

// Copies share one operation. Thread-safe. Until wait() returns, what the operation writes must be
// neither read nor written, and what it reads must not change.
class Work {
 public:
  // A finished operation.
  Work() = default;
  // `stream`: where the operation's buffers are used next.
  explicit Work(std::shared_ptr<Completion> completion, kernels::Stream stream = {})
      : completion_(std::move(completion)), stream_(stream) {}

  // What the caller does next on the buffers' device sees the result. In host memory it blocks
  // until the operation is complete; on a device with streams it need not. Throws the operation's
  // error, every time.
  void wait() const { wait(stream_); }
  // The same for another stream of that device.
  void wait(kernels::Stream stream) const {
    if (completion_) completion_->order(stream);
  }
  // Blocks until the operation is complete on any device: before the host reads what it wrote.
  void synchronize() const {
    if (completion_) completion_->synchronize();
  }
  // True once the operation is complete or has failed; then synchronize() does not block.
  bool is_done() const { return !completion_ || completion_->is_done(); }

 private:
  std::shared_ptr<Completion> completion_;
  kernels::Stream stream_;
};

}  // namespace booster
