// Decoded images in memory, up to a budget. It never evicts the first images: access is random and
// every epoch needs all images, so eviction has no benefit. Thread-safe.
#pragma once

#include "core/data/images/image.h"

#include <memory>
#include <mutex>
#include <vector>

namespace booster {

class ImageCache {
 public:
  ImageCache(size_t budget_bytes, size_t files) : left_(budget_bytes), images_(files) {}

  // Returns the image; null if it is not cached.
  std::shared_ptr<const Image> find(size_t file) const {
    std::lock_guard lock(mutex_);
    return images_[file];
  }
  // Keeps the image if there is space.
  void offer(size_t file, const std::shared_ptr<const Image>& image) {
    std::lock_guard lock(mutex_);
    if (images_[file] || image->bytes() > left_) return;
    left_ -= image->bytes();
    images_[file] = image;
  }

 private:
  mutable std::mutex mutex_;
  size_t left_;
  std::vector<std::shared_ptr<const Image>> images_;
};

}  // namespace booster
