// A batch of images that a GPU computes from their bytes. It crops, resizes, flips, normalises and
// erases them, with the same bits as LazyImage::write(). Workers compute the weights and supply the
// bytes that the GPU does not have.
#pragma once

#include "core/data/images/image.h"
#include "core/data/images/image_plan.h"
#include "core/tensor/staging.h"
#include "kernels/arguments/image_batch.h"

#include <optional>
#include <vector>

namespace booster {

class GpuBatch {
 public:
  GpuBatch(Device device, int64_t size) : device_(device), images_(static_cast<size_t>(size)) {}

  // Sets one position's image; several threads may set different positions. Throws as write() does.
  void set(int64_t position, const LazyImage& image);
  // Packs the images into memory for the copy to the GPU. One thread calls it once, before
  // tensor(). The staging is null if the device is the CPU, which runs the same code in tests.
  void pack(const Staging* staging);
  // Returns (images that were set, channels, height, width) f32 on the device, without waiting.
  Tensor tensor(const Staging* staging) const;

 private:
  // `address` is the whole image's address on the GPU. Null means that the batch holds the needed
  // part.
  struct Prepared {
    ImagePlan plan;
    const uint8_t* address = nullptr;
  };

  const Device device_;
  std::vector<std::optional<Prepared>> images_;
  Tensor upload_;
  kernels::ImageBatch call_;
  std::vector<int64_t> largest_;  // the largest sizes in call_
  int64_t scratch_bytes_ = 0;
  Shape shape_;
  std::vector<std::shared_ptr<const StoredImage>> read_;  // kept alive for their addresses
};

}  // namespace booster
