// What is to become of a batch of decoded images: tables that lie in the memory of the kernel's
// device, in one upload for the batch. Plain data.
//
// An image goes through passes, each of which resizes along one axis, to 8 bits again; behind them
// its part that is shown is flipped, turned into floats by a table of 256 values per channel, and
// erased in places. core/data/images/resize.h has the weights' formula.
#pragma once

#include <cstdint>

namespace booster::kernels {

// Where bytes lie: at an address of the device's memory, or so far into the upload or the scratch
// memory of the call.
enum class ImagePlace : int64_t { address, upload, scratch };
struct ImageBytes {
  ImagePlace place = ImagePlace::address;
  int64_t offset = 0;
};

// Output i along the axis is the weighted sum of `count` inputs from first[i] on, with weights
// (i32, 22 bits of fraction) from i * count on, rounded and clamped to a byte. An image that has
// fewer passes than others has passes of no rows.
struct ImagePass {
  ImageBytes in, out;                           // the other axis has as many inputs as outputs
  int64_t in_row_bytes = 0;                     // rows of `out` are dense
  ImageBytes first, weights;                    // i32
  int32_t rows = 0, columns = 0, channels = 1;  // of the output; 1 or 3 bytes a pixel
  int32_t count = 0;
  int32_t vertical = 0;
};

// A rectangle of the result that becomes one value per channel, or, unless it `is_flat`, values
// (channels, height, width).
struct ImageErasure {
  int32_t left = 0, top = 0, width = 0, height = 0;
  int32_t is_flat = 0, unused = 0;
  ImageBytes values;  // f32
};

struct ImageResult {
  ImageBytes in;
  int64_t in_row_bytes = 0;
  int32_t channels = 1;  // of `in`: one is shown in every channel of the result
  int32_t is_flipped = 0;
  ImageBytes values;    // f32 (3, 256)
  ImageBytes erasures;  // of which later ones lie above earlier ones
  int64_t erasure_count = 0;
};

// Round r has one pass for each image, from passes + r * images on.
struct ImageBatch {
  int64_t passes = 0, results = 0;  // where they begin in the upload
  int64_t rounds = 0;
  const int64_t* largest = nullptr;  // on the host: the most bytes that a pass of each round writes
};

}  // namespace booster::kernels
