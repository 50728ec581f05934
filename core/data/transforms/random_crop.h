// torchvision's RandomCrop: a part of fixed size at a random place of an image, after an optional
// border. Immutable; thread-safe.
//
//   Compose transform(RandomCrop(32, {.padding = 4}), RandomHorizontalFlip(), ToTensor());
#pragma once

#include "core/data/images/padding.h"
#include "core/data/transforms/transforms.h"

namespace booster {

struct RandomCropOptions {
  Borders padding = {};
  bool pad_if_needed = false;  // pads a side that is too short by its shortfall at both ends
  Fill fill = 0;               // for PaddingMode::constant
  PaddingMode padding_mode = PaddingMode::constant;
};

class RandomCrop : public Transform {
 public:
  explicit RandomCrop(ImageSize size, RandomCropOptions options = {});
  // An image smaller than the part, even after padding, is a bad image. If it pads, use before
  // ToTensor.
  void apply(LazyImage& image, RandomStream& random) const override;

 private:
  void pad(LazyImage& image) const;
  ImageSize size_;
  RandomCropOptions options_;
};

}  // namespace booster
