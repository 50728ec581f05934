// A batch of images that a GPU makes of their bytes: cropped, resized, flipped, normalised and
// erased there, to the bits that LazyImage::write() gives. Workers compute weights and hand over
// the bytes that the GPU does not have.
#pragma once

#include "core/data/images/lazy_image.h"
#include "core/tensor/staging.h"
#include "kernels/arguments/image_batch.h"

#include <optional>
#include <vector>

namespace booster {

class GpuBatch {
 public:
  GpuBatch(Device device, int64_t size) : device_(device), images_(static_cast<size_t>(size)) {}

  // The image of one position; several threads may set different ones. Error as of write().
  void set(int64_t position, const LazyImage& image);
  // Puts what was set into memory from which the GPU copies: once, by one thread, before the next.
  // The staging is null where the device is the CPU, which takes the same way in tests.
  void pack(const Staging* staging);
  // (images that were set, channels, height, width) f32 on the device. Returns at once.
  Tensor tensor(const Staging* staging) const;

 private:
  // `address` is that of the whole image on the GPU; null: its part travels with the batch.
  struct Prepared {
    ImagePlan plan;
    const uint8_t* address = nullptr;
  };

  const Device device_;
  std::vector<std::optional<Prepared>> images_;
  Tensor upload_;
  kernels::ImageBatch call_;
  std::vector<int64_t> largest_;  // of call_
  int64_t scratch_bytes_ = 0;
  Shape shape_;
  std::vector<std::shared_ptr<const StoredImage>> read_;  // by address
};

}  // namespace booster
