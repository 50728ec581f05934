// Batches, and what changes whole ones as they leave a loader.
#pragma once

#include "core/data/random_stream.h"
#include "core/tensor/tensor.h"

namespace booster {

struct Batch {
  Tensor image;  // (n, ...) of the samples' dtype; images are f32 (n, channels, height, width)
  Tensor label;  // (n) i64, or (n, ...) of the dataset's targets
};

// Immutable values, as transforms of single images are.
class BatchTransform {
 public:
  virtual ~BatchTransform() = default;
  // On the batch's device; its tensors may be changed in place. `epoch` counts from 0; `random` is
  // the batch's own stream, of the seed, the epoch, the batch's number and, with several ranks, the
  // rank's.
  virtual Batch apply(Batch batch, uint64_t epoch, RandomStream& random) const = 0;
};

}  // namespace booster
