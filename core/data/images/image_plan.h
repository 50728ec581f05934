// The pending work of a lazy image, as plain data that other code can execute. It describes the
// computation of LazyImage::write().
#pragma once

#include "core/data/images/image.h"
#include "core/data/images/stored_image.h"

#include <array>
#include <memory>
#include <vector>

namespace booster {

struct ImagePlan {
  // Resizes along one axis, again to bytes. Output i along that axis is the weighted sum of `count`
  // inputs from first[i] on; weights have resample_bits fraction bits.
  struct Pass {
    bool vertical;
    int rows, columns;  // of the output
    int count;
    std::vector<int32_t> first, weights;
  };
  std::shared_ptr<const StoredImage> stored;  // null if pixels were changed on the host
  std::shared_ptr<const Image> pixels;        // null: only `stored` has the pixels
  int source_width = 0, source_channels = 1;  // rows have no gaps
  Box part;                                   // of the source: the input of the first pass
  std::vector<Pass> passes;                   // each reads the previous one's whole output
  // The final image is the last output, or `part` if there are no passes. These steps follow: flip,
  // repetition of grey in all channels, mapping of each byte by `values`, and `erased` in order.
  bool is_flipped = false;
  int channels = 1;
  std::array<std::array<float, 256>, 3> values;
  std::vector<ErasedBox> erased;

  int width() const { return passes.empty() ? part.width : passes.back().columns; }
  int height() const { return passes.empty() ? part.height : passes.back().rows; }
};

}  // namespace booster
