// An image of a data set whose pixels may already be in a GPU's memory, which saves decoding.
// Immutable; thread-safe.
#pragma once

#include "core/data/images/image.h"
#include "kernels/arguments/view.h"

#include <memory>

namespace booster {

class StoredImage {
 public:
  virtual ~StoredImage() = default;
  virtual int width() const = 0;
  virtual int height() const = 0;
  virtual int channels() const = 0;
  // Returns the pixels on the host, decoded if necessary. Throws an error of kind data, naming the
  // image, if decoding fails.
  virtual std::shared_ptr<const Image> pixels() const = 0;
  // Returns the pixels in the device's memory, rows without gaps, valid as long as this object
  // lives. Null if they are not there and there is no space.
  virtual const uint8_t* on(Device device) const = 0;
};

}  // namespace booster
