#include "core/data/transforms/transforms.h"

#include "core/data/images/image_limits.h"
#include "core/data/transforms/rounding.h"
#include "platform/error.h"

#include <algorithm>
#include <cmath>

namespace booster {
namespace {

void check_size(const char* what, ImageSize size) {
  check(size.height >= 1 && size.width >= 1 && size.height <= image_limits::side &&
            size.width <= image_limits::side,
        "{}: size out of range; got {} x {}, want 1 to {} per side", what, size.height, size.width,
        image_limits::side);
}

}  // namespace

void Compose::apply(LazyImage& image, RandomStream& random) const {
  for (const auto& step : steps_) step->apply(image, random);
}

Resize::Resize(int size, ResizeOptions options)
    : keeps_aspect_(true), size_(size), options_(options) {
  check_size("Resize", size_);
  check(options.max_size == 0 || options.max_size > size,
        "Resize: max_size too small; got {}, want more than size {}", options.max_size, size);
}

Resize::Resize(ImageSize size, ResizeOptions options)
    : keeps_aspect_(false), size_(size), options_(options) {
  check_size("Resize", size_);
  check(options.max_size == 0, "Resize: max_size needs a size of one number; got {} x {}",
        size.height, size.width);
}

void Resize::apply(LazyImage& image, RandomStream&) const {
  if (!keeps_aspect_) return image.resize(size_.width, size_.height, options_.interpolation);
  const bool upright = image.width() <= image.height();
  const int64_t in_short = upright ? image.width() : image.height();
  const int64_t in_long = upright ? image.height() : image.width();
  int64_t short_side = size_.height;
  int64_t long_side = short_side * in_long / in_short;
  if (options_.max_size && long_side > options_.max_size) {
    short_side = std::max<int64_t>(1, options_.max_size * short_side / long_side);
    long_side = options_.max_size;
  }
  const int w = static_cast<int>(upright ? short_side : long_side);
  const int h = static_cast<int>(upright ? long_side : short_side);
  image.resize(w, h, options_.interpolation);
}

RandomResizedCrop::RandomResizedCrop(ImageSize size, RandomResizedCropOptions options)
    : size_(size), options_(options) {
  check_size("RandomResizedCrop", size);
  check(options.scale.low > 0 && options.scale.low <= options.scale.high,
        "RandomResizedCrop: scale out of range; got {} to {}, want 0 < low <= high",
        options.scale.low, options.scale.high);
  check(options.ratio.low > 0 && options.ratio.low <= options.ratio.high,
        "RandomResizedCrop: ratio out of range; got {} to {}, want 0 < low <= high",
        options.ratio.low, options.ratio.high);
}

Box RandomResizedCrop::draw(int width, int height, RandomStream& random) const {
  const double area = static_cast<double>(width) * height;
  const double log_low = std::log(options_.ratio.low), log_high = std::log(options_.ratio.high);
  for (int attempt = 0; attempt < 10; ++attempt) {
    const double target = area * random.uniform(options_.scale.low, options_.scale.high);
    const double ratio = std::exp(random.uniform(log_low, log_high));
    const int w = rounded(std::sqrt(target * ratio));
    const int h = rounded(std::sqrt(target / ratio));
    if (w < 1 || w > width || h < 1 || h > height) continue;
    const int top = static_cast<int>(random.below(height - h + 1));
    const int left = static_cast<int>(random.below(width - w + 1));
    return {left, top, w, h};
  }
  return central(width, height);
}

Box RandomResizedCrop::central(int width, int height) const {
  const double ratio = static_cast<double>(width) / height;
  int w = width, h = height;
  if (ratio < options_.ratio.low)
    h = std::clamp(rounded(width / options_.ratio.low), 1, height);
  else if (ratio > options_.ratio.high)
    w = std::clamp(rounded(height * options_.ratio.high), 1, width);
  return {(width - w) / 2, (height - h) / 2, w, h};
}

void RandomResizedCrop::apply(LazyImage& image, RandomStream& random) const {
  image.crop(draw(image.width(), image.height(), random));
  image.resize(size_.width, size_.height, options_.interpolation);
}

RandomHorizontalFlip::RandomHorizontalFlip(double p) : p_(p) {
  check(p >= 0 && p <= 1, "RandomHorizontalFlip: p out of range; got {}, want 0 to 1", p);
}

void RandomHorizontalFlip::apply(LazyImage& image, RandomStream& random) const {
  if (random.uniform() < p_) image.flip_horizontal();
}

CenterCrop::CenterCrop(ImageSize size) : size_(size) { check_size("CenterCrop", size); }

void CenterCrop::apply(LazyImage& image, RandomStream&) const {
  const int missing_x = std::max(0, size_.width - image.width());
  const int missing_y = std::max(0, size_.height - image.height());
  if (missing_x || missing_y)
    image.pad(missing_x / 2, missing_y / 2, (missing_x + 1) / 2, (missing_y + 1) / 2);
  const int top = rounded((image.height() - size_.height) / 2.0);
  const int left = rounded((image.width() - size_.width) / 2.0);
  image.crop({left, top, size_.width, size_.height});
}

void ToTensor::apply(LazyImage& image, RandomStream&) const { image.to_tensor(); }

void Gray2RGB::apply(LazyImage& image, RandomStream&) const { image.repeat_grey(); }

Normalize::Normalize(std::vector<double> mean, std::vector<double> std)
    : mean_(std::move(mean)), std_(std::move(std)) {
  check(mean_.size() == std_.size() && (mean_.size() == 1 || mean_.size() == 3),
        "Normalize: wrong numbers of means and deviations; got {} and {}, want 1 or 3 of each",
        mean_.size(), std_.size());
  for (double s : std_) check(s > 0, "Normalize: std out of range; got {}, want more than 0", s);
}

void Normalize::apply(LazyImage& image, RandomStream&) const { image.normalize(mean_, std_); }

}  // namespace booster
