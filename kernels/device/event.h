// A point in the order of a device's stream: what was queued there until then. Thread-safe.
#pragma once

namespace booster::kernels {

class Event {
 public:
  virtual ~Event() = default;
  virtual bool is_past() = 0;
  // Blocks the calling thread until it is past.
  virtual void wait() = 0;
  // Makes work that is queued to that stream of the device from now on run after it: a
  // cudaStream_t, or null for the stream of kernels. Does not block.
  virtual void precede(void* stream) = 0;
};

}  // namespace booster::kernels
