#include "core/data/transforms/transforms.h"

#include "core/data/transforms/rounding.h"
#include "platform/error.h"

#include <cmath>
#include <optional>

namespace booster {
namespace {

std::optional<Box> one_box(const RandomErasingOptions& options, int width, int height, double area,
                           RandomStream& random) {
  const double log_low = std::log(options.ratio.low), log_high = std::log(options.ratio.high);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * random.uniform(options.scale.low, options.scale.high);
    const double ratio = std::exp(random.uniform(log_low, log_high));
    const int h = rounded(std::sqrt(target * ratio)), w = rounded(std::sqrt(target / ratio));
    if (w < 1 || w >= width || h < 1 || h >= height) continue;
    const int top = static_cast<int>(random.below(height - h + 1));
    const int left = static_cast<int>(random.below(width - w + 1));
    return Box{left, top, w, h};
  }
  return {};
}

std::vector<float> values_for(ErasingMode mode, int channels, const Box& box,
                              RandomStream& random) {
  const size_t area = size_t(box.width) * static_cast<size_t>(box.height);
  std::vector<float> values(static_cast<size_t>(channels) *
                            (mode == ErasingMode::pixel ? area : 1));
  if (mode != ErasingMode::zero)
    for (float& value : values) value = static_cast<float>(random.normal());
  return values;
}

}  // namespace

ErasingMode erasing_mode(const std::string& name) {
  if (name == "const") return ErasingMode::zero;
  if (name == "rand") return ErasingMode::color;
  if (name == "pixel") return ErasingMode::pixel;
  fail("RandomErasing: unknown mode; got '{}'{}", name,
       legal_names(name, {"const", "rand", "pixel"}));
}

RandomErasing::RandomErasing(RandomErasingOptions options) : options_(options) {
  check(options.p >= 0 && options.p <= 1, "RandomErasing: p out of range; got {}, want 0 to 1",
        options.p);
  check(
      options.scale.low >= 0 && options.scale.low <= options.scale.high && options.scale.high <= 1,
      "RandomErasing: scale out of range; got {} to {}, want 0 <= low <= high <= 1",
      options.scale.low, options.scale.high);
  check(options.ratio.low > 0 && options.ratio.low <= options.ratio.high,
        "RandomErasing: ratio out of range; got {} to {}, want 0 < low <= high", options.ratio.low,
        options.ratio.high);
  check(options.min_count >= 1 && options.min_count <= options.max_count,
        "RandomErasing: count out of range; got {} to {}, want 1 <= min_count <= max_count",
        options.min_count, options.max_count);
}

std::vector<Box> RandomErasing::draw(int width, int height, RandomStream& random) const {
  std::vector<Box> boxes;
  if (random.uniform() >= options_.p) return boxes;
  const auto count = options_.min_count + random.below(options_.max_count - options_.min_count + 1);
  const double area = static_cast<double>(width) * height / static_cast<double>(count);
  for (int64_t i = 0; i < count; ++i)
    if (const auto box = one_box(options_, width, height, area, random)) boxes.push_back(*box);
  return boxes;
}

void RandomErasing::apply(LazyImage& image, RandomStream& random) const {
  for (const Box& box : draw(image.width(), image.height(), random))
    image.erase(box, values_for(options_.mode, image.channels(), box, random));
}

}  // namespace booster
