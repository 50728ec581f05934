// torchvision's RandomCrop: a part of fixed size at a random place, of an image that may get a
// border first. Immutable; thread-safe.
//
//   Compose transform(RandomCrop(32, {.padding = 4}), RandomHorizontalFlip(), ToTensor());
#pragma once

#include "core/data/images/padding.h"
#include "core/data/transforms/transforms.h"

namespace booster {

struct RandomCropOptions {
  Borders padding = {};
  bool pad_if_needed = false;  // a side that is too short gets what it lacks at both ends
  Fill fill = 0;               // of PaddingMode::constant
  PaddingMode padding_mode = PaddingMode::constant;
};

class RandomCrop : public Transform {
 public:
  explicit RandomCrop(ImageSize size, RandomCropOptions options = {});
  // An image that stays smaller than the part is a bad image. Before ToTensor if it pads.
  void apply(LazyImage& image, RandomStream& random) const override;

 private:
  void pad(LazyImage& image) const;
  ImageSize size_;
  RandomCropOptions options_;
};

}  // namespace booster
