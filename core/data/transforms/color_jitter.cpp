#include "core/data/transforms/transforms.h"

#include "core/data/images/adjust.h"
#include "core/data/images/hue.h"
#include "platform/error.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace booster {
namespace {

struct Adjustment {
  const char* name;
  double none;  // the factor that changes nothing
  double least, most;
  Image (*adjust)(Image image, double factor);
};

constexpr Adjustment adjustments[] = {
    {"brightness", 1, 0, HUGE_VAL, adjust_brightness},
    {"contrast", 1, 0, HUGE_VAL, adjust_contrast},
    {"saturation", 1, 0, HUGE_VAL, adjust_color},
    {"hue", 0, -0.5, 0.5, adjust_hue},
};

std::array<double, 2> checked(const Adjustment& how, const JitterRange& given) {
  const auto range = given.around(how.none, how.least < 0);
  check(how.least <= range[0] && range[0] <= range[1] && range[1] <= how.most &&
            std::isfinite(range[1]),
        "ColorJitter: {} out of range; got {} to {}, want {} <= low <= high <= {}", how.name,
        range[0], range[1], how.least, how.most);
  return range;
}

}  // namespace

std::array<double, 2> JitterRange::around(double none, bool can_be_negative) const {
  if (!spread_) return {low_, high_};
  check(*spread_ >= 0, "ColorJitter: a number is below 0; got {}, want 0 or more, or a range",
        *spread_);
  const double low = none - *spread_;
  return {can_be_negative ? low : std::max(0.0, low), none + *spread_};
}

ColorJitter::ColorJitter(ColorJitterOptions options)
    : ranges_{checked(adjustments[0], options.brightness),
              checked(adjustments[1], options.contrast),
              checked(adjustments[2], options.saturation), checked(adjustments[3], options.hue)} {}

ColorJitter::Choice ColorJitter::draw(RandomStream& random) const {
  Choice choice = {.factors = {}, .order = {0, 1, 2, 3}};
  for (int i = 3; i > 0; --i) std::swap(choice.order[i], choice.order[random.below(i + 1)]);
  for (size_t i = 0; i < 4; ++i) {
    const auto [low, high] = ranges_[i];
    if (low == high && low == adjustments[i].none) continue;
    choice.factors[i] = random.uniform(low, high);
  }
  return choice;
}

void ColorJitter::apply(LazyImage& image, RandomStream& random) const {
  const Choice choice = draw(random);
  image.change_pixels([&](Image pixels) {
    for (const int i : choice.order)
      if (const auto factor = choice.factors[i])
        pixels = adjustments[i].adjust(std::move(pixels), *factor);
    return pixels;
  });
}

}  // namespace booster
