// The draws of a recorded step (a CUDA graph). Each replay continues the stream from the
// generator's current position, and draws the values that an unrecorded step would draw. The
// generator must outlive it. Thread rules are as for Generator.
#pragma once

#include "core/tensor/random/random.h"

namespace booster {

class RandomRecording {
 public:
  // Makes the generator's positions refer to recorded kernels on `device` from now on. Throws if
  // the generator is already being recorded.
  RandomRecording(Generator& generator, Device device);
  ~RandomRecording();
  RandomRecording(const RandomRecording&) = delete;
  RandomRecording& operator=(const RandomRecording&) = delete;

  // Completes the recording and restores the generator's earlier state.
  void end();
  // Prepares a replay; call it before each. The replay's kernels begin at the generator's position,
  // and the generator advances past them. Throws before end().
  void replay();

 private:
  friend class Generator;
  void write_origin(RandomState state);

  Generator* generator_;
  RandomState start_;
  uint64_t taken_ = 0;  // blocks used by one replay
  Tensor origin_;       // {seed, offset} on the device (i64)
};

}  // namespace booster
