// Work of a device that is recorded and replayed as a whole. Belongs to one thread at a time.
#pragma once

namespace booster::kernels {

class Recording {
 public:
  // Gives up what is being recorded; what was queued by replay() is still done.
  virtual ~Recording() = default;
  // By the thread that began it. Error if what was queued cannot be replayed.
  virtual void end() = 0;
  // After end(): queues the work behind all that the device's stream has been given.
  virtual void replay() = 0;
};

}  // namespace booster::kernels
