// Batches, and transforms of whole batches as they leave a loader.
#pragma once

#include "core/data/random_stream.h"
#include "core/tensor/tensor.h"

namespace booster {

struct Batch {
  Tensor image;  // (n, ...) in the samples' dtype; images are f32 (n, channels, height, width)
  Tensor label;  // (n) i64, or (n, ...) as the dataset's targets
};

// Transforms are immutable values, like transforms of single images.
class BatchTransform {
 public:
  virtual ~BatchTransform() = default;
  // Runs on the batch's device and may change the batch's tensors in place. `epoch` counts from 0.
  // `random` is the batch's own stream, given by the seed, the epoch, the batch's number and, with
  // several ranks, the rank.
  virtual Batch apply(Batch batch, uint64_t epoch, RandomStream& random) const = 0;
};

}  // namespace booster
