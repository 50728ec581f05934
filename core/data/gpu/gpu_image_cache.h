// Decoded images in a GPU's memory, up to a budget. As in images/image_cache.h, it never evicts the
// first ones. Thread-safe.
#pragma once

#include "core/data/images/image.h"
#include "kernels/arguments/view.h"
#include "kernels/device/event.h"

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

namespace booster {

class GpuImageCache {
 public:
  GpuImageCache(Device gpu, size_t budget_bytes, size_t files);
  ~GpuImageCache();
  GpuImageCache(const GpuImageCache&) = delete;

  struct Kept {
    const uint8_t* address;  // on the GPU; rows have no gaps
    int width, height, channels;
  };
  Device device() const { return gpu_; }
  // Returns the image's place, or nothing if it is not cached.
  std::optional<Kept> find(size_t file) const;
  // Copies the image to the GPU if there is space. Returns nothing if there is none, or while
  // another thread copies it. Prints one line for the user when space first runs out.
  std::optional<Kept> offer(size_t file, const Image& image);

 private:
  struct Entry {
    uint8_t* address = nullptr;
    int width = 0, height = 0, channels = 0;
    bool is_there = false;
  };
  // A block of GPU memory, from which images take consecutive parts.
  struct Slab {
    uint8_t* data;
    size_t bytes, used;
    std::shared_ptr<kernels::Event> from;  // when kernels queued earlier no longer use it
  };
  uint8_t* take(size_t bytes);
  bool add_slab(size_t least);
  void say_full();

  const Device gpu_;
  const size_t budget_;
  mutable std::mutex mutex_;
  size_t left_, kept_ = 0;  // bytes of the budget; images
  bool has_said_full_ = false;
  std::vector<Slab> slabs_;
  std::vector<Entry> entries_;
};

}  // namespace booster
