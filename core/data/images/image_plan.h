// What is left to compute of a lazy image, for somebody else to compute it: LazyImage::write() in
// numbers. Plain data.
#pragma once

#include "core/data/images/resize.h"
#include "core/data/images/stored_image.h"

#include <array>
#include <memory>
#include <vector>

namespace booster {

struct ImagePlan {
  // Resizes along one axis, to bytes again. Output i of that axis is made of `count` inputs from
  // first[i] on, by weights of resample_bits of fraction.
  struct Pass {
    bool vertical;
    int rows, columns;  // of the output
    int count;
    std::vector<int32_t> first, weights;
  };
  struct Erased {
    Box box;
    std::vector<float> values;  // one for each channel, or channels x height x width
  };

  std::shared_ptr<const StoredImage> stored;  // null where pixels were changed on the host
  std::shared_ptr<const Image> pixels;        // null: only `stored` has them
  int source_width = 0, source_channels = 1;  // whose rows have no gaps
  Box part;                                   // of the source: what the first pass reads
  std::vector<Pass> passes;                   // each reads all of what the one before has written
  // The last output, or `part`, is shown: flipped, grey in all channels, and by these values of
  // each byte; then erased, in this order.
  bool is_flipped = false;
  int channels = 1;
  std::array<std::array<float, 256>, 3> values;
  std::vector<Erased> erased;

  int width() const { return passes.empty() ? part.width : passes.back().columns; }
  int height() const { return passes.empty() ? part.height : passes.back().rows; }
};

}  // namespace booster
