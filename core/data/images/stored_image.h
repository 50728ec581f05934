// An image of a data set whose pixels may lie in a GPU's memory already, so that nobody need decode
// it. Immutable; thread-safe.
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
  // On the host; decodes them if need be. Error of kind data, naming the image, if that fails.
  virtual std::shared_ptr<const Image> pixels() const = 0;
  // In that device's memory, rows without gaps, as long as this object lives; null if they are not
  // there and there is no room.
  virtual const uint8_t* on(Device device) const = 0;
};

}  // namespace booster
