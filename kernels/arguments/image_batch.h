// The work on a batch of decoded images: tables in the memory of the kernel's device, uploaded once
// per batch. Plain data.
//
// Passes first resize an image, each along one axis and to 8 bits again. Then its visible part is
// flipped, converted to floats by a table of 256 values per channel, and partly erased.
// core/data/images/resize.h has the weights' formula.
#pragma once

#include <cstdint>

namespace booster::kernels {

// Location of bytes: an address of the device's memory, or an offset in the upload or in the call's
// scratch memory.
enum class ImagePlace : int64_t { address, upload, scratch };
struct ImageBytes {
  ImagePlace place = ImagePlace::address;
  int64_t offset = 0;
};

// Output i along the axis is the weighted sum of `count` inputs from first[i] on, rounded and
// clamped to a byte. Its weights (i32, 22 bits of fraction) are elements i * count to i * count +
// count - 1. Images with fewer passes than others get passes without rows.
struct ImagePass {
  ImageBytes in, out;                           // the sizes along the other axis are equal
  int64_t in_row_bytes = 0;                     // rows of `out` are dense
  ImageBytes first, weights;                    // i32
  int32_t rows = 0, columns = 0, channels = 1;  // of the output; 1 or 3 bytes per pixel
  int32_t count = 0;
  int32_t vertical = 0;
};

// An overwritten rectangle of the result: by one value per channel if `is_flat`, otherwise by
// values (channels, height, width).
struct ImageErasure {
  int32_t left = 0, top = 0, width = 0, height = 0;
  int32_t is_flat = 0, unused = 0;
  ImageBytes values;  // f32
};

struct ImageResult {
  ImageBytes in;
  int64_t in_row_bytes = 0;
  int32_t channels = 1;  // of `in`; a single one fills all channels of the result
  int32_t is_flipped = 0;
  ImageBytes values;    // f32 (3, 256)
  ImageBytes erasures;  // later ones cover earlier ones
  int64_t erasure_count = 0;
};

// Round r has one pass for each image, from passes + r * images on.
struct ImageBatch {
  int64_t passes = 0, results = 0;  // offsets in the upload
  int64_t rounds = 0;
  const int64_t* largest = nullptr;  // on the host: maximum of bytes that a pass of each round
                                     // writes
};

}  // namespace booster::kernels
