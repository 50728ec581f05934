// Device work that is recorded and replayed as a whole. Belongs to one thread at a time.
#pragma once

namespace booster::kernels {

class Recording {
 public:
  // Abandons an unfinished recording; work queued by replay() still runs.
  virtual ~Recording() = default;
  // Ends the recording, on the thread that began it. Throws if the work cannot be replayed.
  virtual void end() = 0;
  // Queues the work after all work that the device's stream has. Call it after end().
  virtual void replay() = 0;
};

}  // namespace booster::kernels
