// How a backend signals that an operation is complete. Thread-safe.
#pragma once

#include "kernels/arguments/view.h"

namespace booster {

// Signals the completion of an operation: a flag of its own thread (work_queue.h), or an event on a
// device's stream.
class Completion {
 public:
  virtual ~Completion() = default;
  // Orders the following work on `stream` after the operation. For host work it blocks this thread
  // until then; for a device it queues a wait in the stream. Throws the operation's error if it is
  // known.
  virtual void order(kernels::Stream stream) = 0;
  // Blocks this thread until the operation is complete. Throws its error, every time.
  virtual void synchronize() = 0;
  // True once the operation is complete or has failed; then synchronize() does not block.
  virtual bool is_done() = 0;
};

}  // namespace booster
