// A point in the order of a device's stream, after the work queued there so far. Thread-safe.
#pragma once

namespace booster::kernels {

class Event {
 public:
  virtual ~Event() = default;
  virtual bool is_past() = 0;
  // Blocks the calling thread until it is past.
  virtual void wait() = 0;
  // Makes later work of that stream (a cudaStream_t, or null for the stream of kernels) run after
  // it. Does not block.
  virtual void precede(void* stream) = 0;
};

}  // namespace booster::kernels
