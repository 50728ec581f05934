// RandAugment (Cubuk et al., 2020) as in torchvision, with Pillow's results on images: num_ops
// operations drawn from fourteen, all of one magnitude. Use before ToTensor. Immutable: many
// threads may use one at the same time.
//
//   Compose(RandomResizedCrop(224), RandomHorizontalFlip(), RandAugment(), ToTensor(), ...);
#pragma once

#include "core/data/images/affine.h"
#include "core/data/transforms/transforms.h"

#include <string>
#include <vector>

namespace booster {

// The defaults are torchvision's.
struct RandAugmentOptions {
  int num_ops = 2;
  int magnitude = 9;  // of 0 to num_magnitude_bins - 1
  int num_magnitude_bins = 31;
  AffineFilter interpolation = AffineFilter::nearest;  // of shears, translations and rotations
  uint8_t fill = 0;                                    // for pixels with no source
};
// Returns the filter "nearest" or "bilinear"; throws with the legal names otherwise.
AffineFilter affine_filter(const std::string& name);

class RandAugment : public Transform {
 public:
  explicit RandAugment(RandAugmentOptions options = {});
  void apply(LazyImage& image, RandomStream& random) const override;

  // One of torchvision's operations: "Identity", "ShearX", "ShearY", "TranslateX", "TranslateY",
  // "Rotate", "Brightness", "Color", "Contrast", "Sharpness", "Posterize", "Solarize",
  // "AutoContrast", "Equalize".
  struct Operation {
    std::string name;
    double magnitude = 0;
  };
  // Draws the operations for an image of this size.
  std::vector<Operation> draw(int width, int height, RandomStream& random) const;
  // Throws for any other name.
  Image applied(const Operation& operation, Image image) const;

 private:
  RandAugmentOptions options_;
};

}  // namespace booster
