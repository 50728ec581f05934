#include "core/data/images/image_limits.h"
#include "core/data/transforms/transforms.h"

#include "core/data/images/padding.h"
#include "platform/error.h"

#include <algorithm>

namespace booster {

RandomCrop::RandomCrop(ImageSize size, RandomCropOptions options) : size_(size), options_(options) {
  check(size.height >= 1 && size.width >= 1 && size.height <= image_limits::side &&
            size.width <= image_limits::side,
        "RandomCrop: size out of range; got {} x {}, want 1 to {} per side", size.height,
        size.width, image_limits::side);
  const Borders& border = options.padding;
  const auto [least, most] =
      std::minmax({border.left, border.top, border.right, border.bottom});
  check(least >= 0 && most <= image_limits::side,
        "RandomCrop: padding out of range; got {}, want 0 to {}", least < 0 ? least : most,
        image_limits::side);
}

// Pads the width before the height, as torchvision does, because the height's border mirrors the
// padded rows.
void RandomCrop::pad(LazyImage& image) const {
  const auto add = [&](const Borders& borders) {
    if (!borders.left && !borders.top && !borders.right && !borders.bottom) return;
    image.change_pixels([&](const Image& pixels) {
      return padded(pixels, borders, options_.padding_mode, options_.fill);
    });
  };
  add(options_.padding);
  if (!options_.pad_if_needed) return;
  add({std::max(0, size_.width - image.width()), 0});
  add({0, std::max(0, size_.height - image.height())});
}

void RandomCrop::apply(LazyImage& image, RandomStream& random) const {
  pad(image);
  const int free_y = image.height() - size_.height, free_x = image.width() - size_.width;
  if (free_y < 0 || free_x < 0)
    bad_image(
        image.name(),
        fmt::format(
            "smaller than RandomCrop's part; got {} x {}, want at least {} x {}, or pad_if_needed",
            image.width(), image.height(), size_.width, size_.height));
  if (free_y == 0 && free_x == 0) return;
  const int top = static_cast<int>(random.below(free_y + 1));
  const int left = static_cast<int>(random.below(free_x + 1));
  image.crop({left, top, size_.width, size_.height});
}

}  // namespace booster
