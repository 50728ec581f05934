// Erases a random rectangle of an image tensor (Zhong et al., "Random erasing data augmentation",
// 2017), drawn as in timm and torchvision. Use after ToTensor, Gray2RGB and Normalize. Immutable:
// many threads may use one at the same time.
//
//   Compose(..., ToTensor(), Gray2RGB(), Normalize(mean, std), RandomErasing({.p = 0.25}));
#pragma once

#include "core/data/transforms/transforms.h"

#include <string>

namespace booster {

// What fills the rectangle, in the tensor's values: after Normalize, 0 is the mean.
enum class ErasingMode {
  zero,   // 0; "const"
  color,  // one normal value per channel; "rand"
  pixel,  // one normal value per element; "pixel"
};
// Returns the mode of timm's name, above; throws with the legal names otherwise.
ErasingMode erasing_mode(const std::string& name);

struct RandomErasingOptions {
  double p = 0.5;  // probability of erasing
  struct Range {
    double low, high;
  };
  Range scale = {0.02, 1.0 / 3};   // of the image's area; all rectangles together
  Range ratio = {0.3, 1.0 / 0.3};  // height / width
  ErasingMode mode = ErasingMode::zero;
  int min_count = 1, max_count = 1;  // number of rectangles, which share the area equally
};

class RandomErasing : public Transform {
 public:
  explicit RandomErasing(RandomErasingOptions options = {});
  void apply(LazyImage& image, RandomStream& random) const override;
  // Draws the rectangles for an image of this size. A rectangle that does not fit in ten draws is
  // dropped. As in timm and torchvision, rectangles are smaller than the image in both directions.
  std::vector<Box> draw(int width, int height, RandomStream& random) const;

 private:
  RandomErasingOptions options_;
};

}  // namespace booster
