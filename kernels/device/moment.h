// A point in the order of a device's stream: what was queued there until then. Thread-safe.
#pragma once

namespace booster::kernels {

class Moment {
 public:
  virtual ~Moment() = default;
  virtual bool is_past() = 0;
  // The calling thread blocks until it is past.
  virtual void wait() = 0;
  // What is put into that stream of the device from now on runs after it: a cudaStream_t, or null
  // for the one that kernels run on. Does not block.
  virtual void precede(void* stream) = 0;
};

}  // namespace booster::kernels
