// torchvision's ColorJitter: changes brightness, contrast, saturation and hue by random factors in
// a random order. Immutable; thread-safe.
//
//   ColorJitter({.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1})
#pragma once

#include "core/data/transforms/transforms.h"

#include <array>
#include <optional>

namespace booster {

// The range from which a factor is drawn: [low, high], or a spread x around no change. x means
// [max(0, 1 - x), 1 + x], and [-x, x] for hue.
class JitterRange {
 public:
  JitterRange(double spread) : spread_(spread) {}  // NOLINT: 0.4 is a range
  JitterRange(double low, double high) : low_(low), high_(high) {}
  std::array<double, 2> around(double none, bool can_be_negative) const;

 private:
  std::optional<double> spread_;
  double low_ = 0, high_ = 0;
};

struct ColorJitterOptions {
  JitterRange brightness = 0, contrast = 0, saturation = 0;
  JitterRange hue = 0;  // parts of the colour circle, -0.5 to 0.5
};

class ColorJitter : public Transform {
 public:
  explicit ColorJitter(ColorJitterOptions options);
  // Use before ToTensor.
  void apply(LazyImage& image, RandomStream& random) const override;

  // The factors of brightness, contrast, saturation and hue, empty where unchanged, and the order
  // in which they are applied.
  struct Choice {
    std::array<std::optional<double>, 4> factors;
    std::array<int, 4> order;
  };
  Choice draw(RandomStream& random) const;

 private:
  std::array<std::array<double, 2>, 4> ranges_;
};

}  // namespace booster
