// Erases a random rectangle of an image tensor (Zhong et al., "Random erasing data augmentation",
// 2017), as timm and torchvision draw it. Behind ToTensor, Gray2RGB and Normalize. Immutable: many
// threads may use one at the same time.
//
//   Compose(..., ToTensor(), Gray2RGB(), Normalize(mean, std), RandomErasing({.p = 0.25}));
#pragma once

#include "core/data/transforms/transforms.h"

#include <string>

namespace booster {

// What stands in the rectangle, in terms of what the tensor holds: behind Normalize 0 is the mean.
enum class ErasingMode {
  zero,   // 0; "const"
  color,  // a normal number for each channel; "rand"
  pixel,  // normal numbers; "pixel"
};
// timm's names, above; error with the legal names otherwise.
ErasingMode erasing_mode(const std::string& name);

struct RandomErasingOptions {
  double p = 0.5;  // that anything is erased
  struct Range {
    double low, high;
  };
  Range scale = {0.02, 1.0 / 3};   // of the image's area; all rectangles together
  Range ratio = {0.3, 1.0 / 0.3};  // height / width
  ErasingMode mode = ErasingMode::zero;
  int min_count = 1, max_count = 1;  // rectangles, of which each has its share of the area
};

class RandomErasing : public Transform {
 public:
  explicit RandomErasing(RandomErasingOptions options = {});
  void apply(LazyImage& image, RandomStream& random) const override;
  // What would be erased from an image of this size. A rectangle that does not fit in ten draws is
  // left out; as in timm and torchvision it is smaller than the image in both directions.
  std::vector<Box> draw(int width, int height, RandomStream& random) const;

 private:
  RandomErasingOptions options_;
};

}  // namespace booster
