// Random erasing against timm's rectangles, and their new contents.
#include "core/data/transforms/transforms.h"

#include "tests/data/drawn.h"
#include "tests/data/files.h"

#include <algorithm>

using namespace booster;
using namespace booster::test;

namespace {

LazyImage grey(int width, int height, int channels = 3) {
  auto image = std::make_shared<Image>(width, height, channels);
  std::fill_n(image->data(), image->bytes(), uint8_t{255});
  return LazyImage(std::move(image), "white.png");
}

RandomErasingOptions erasing_options(const Json& golden) {
  RandomErasingOptions options;
  options.p = golden["probability"];
  options.scale = {golden.value("min_area", 0.02), golden.value("max_area", 1.0 / 3)};
  const double low = golden.value("min_aspect", 0.3);
  options.ratio = {low, golden.value("max_aspect", 1 / low)};
  return options;
}

std::vector<float> erased(ErasingMode mode, uint64_t sample) {
  LazyImage image = grey(20, 16);
  RandomStream random(5, 6, sample);
  Compose(ToTensor(), RandomErasing({.p = 1, .mode = mode})).apply(image, random);
  return pixels_of(image);
}

}  // namespace

TEST_CASE("rectangles are drawn as timm draws them") {
  constexpr int draws = 20000;
  for (const Json& golden : golden_json("random_erasing")) {
    CAPTURE(golden.dump());
    const RandomErasing erasing(erasing_options(golden["options"]));
    Moments left, top, w, h, area;
    for (uint64_t i = 0; i < draws; ++i) {
      RandomStream random(7, 8, i);
      for (const Box& box : erasing.draw(golden["width"], golden["height"], random)) {
        left.add(box.left);
        top.add(box.top);
        w.add(box.width);
        h.add(box.height);
        area.add(double(box.width) * box.height);
      }
    }
    check_rate(area.count(), draws, golden["erased"]);
    left.check_like(golden["left"]);
    top.check_like(golden["top"]);
    w.check_like(golden["w"]);
    h.check_like(golden["h"]);
    area.check_like(golden["area"]);
  }
}

TEST_CASE("just the drawn rectangle changes, in every mode and channel") {
  for (const auto mode : {ErasingMode::zero, ErasingMode::color, ErasingMode::pixel})
    for (uint64_t sample = 0; sample < 50; ++sample) {
      RandomStream same(5, 6, sample);
      const auto boxes = RandomErasing({.p = 1}).draw(20, 16, same);
      const auto got = erased(mode, sample);
      for (int c = 0; c < 3; ++c)
        for (int y = 0; y < 16; ++y)
          for (int x = 0; x < 20; ++x) {
            const bool inside = std::ranges::any_of(boxes, [&](const Box& box) {
              return x >= box.left && x < box.left + box.width && y >= box.top &&
                     y < box.top + box.height;
            });
            const float value = got[size_t((c * 16 + y) * 20 + x)];
            if (!inside)
              CHECK(value == 1);
            else if (mode == ErasingMode::zero)
              CHECK(value == 0);
            else
              CHECK(value != 1);
          }
    }
}

TEST_CASE("colours are one normal number a channel, pixels one each") {
  const auto kinds = [](ErasingMode mode) {
    auto got = erased(mode, 1);
    std::ranges::sort(got);
    return std::unique(got.begin(), got.end()) - got.begin();
  };
  CHECK(kinds(ErasingMode::zero) == 2);
  CHECK(kinds(ErasingMode::color) == 4);
  CHECK(kinds(ErasingMode::pixel) > 20);
  Moments normal;
  for (uint64_t i = 0; i < 400; ++i)
    for (const float value : erased(ErasingMode::pixel, i))
      if (value != 1) normal.add(value);
  normal.check_like({0, 1});
}

TEST_CASE("several rectangles share the area, and the same sample is erased alike") {
  const RandomErasing erasing({.p = 1, .min_count = 2, .max_count = 4});
  Moments count;
  for (uint64_t i = 0; i < 9000; ++i) {
    RandomStream random(9, 1, i), again(9, 1, i);
    const auto boxes = erasing.draw(64, 64, random);
    count.add(static_cast<double>(boxes.size()));
    CHECK(boxes == erasing.draw(64, 64, again));
    for (const Box& box : boxes) CHECK(box.width * box.height <= 64 * 64 / 3.0 / 2 * 1.2);
  }
  count.check_like({3, std::sqrt(2.0 / 3)});
}

TEST_CASE("Normalize behind RandomErasing takes the erased values along") {
  LazyImage image = grey(8, 8);
  image.to_tensor();
  image.erase({2, 3, 4, 2}, {0.f, 0.25f, 0.5f});
  image.normalize({0.5, 0.25, 0.5}, {0.5, 0.5, 0.25});
  const auto got = pixels_of(image);
  const size_t at = 3 * 8 + 2;
  CHECK(got[at] == -1);
  CHECK(got[64 + at] == 0);
  CHECK(got[128 + at] == 0);
  CHECK(got[128] == 2);
}

TEST_CASE("random erasing refuses options and places that cannot be meant") {
  CHECK(error_of([] { RandomErasing({.p = -1}); }) ==
        "RandomErasing: p out of range; got -1, want 0 to 1");
  CHECK(error_of([] { RandomErasing({.min_count = 3}); }) ==
        "RandomErasing: count out of range; got 3 to 1, want 1 <= min_count <= max_count");
  CHECK(contains(error_of([] { erasing_mode("pixels"); }), "unknown mode; got 'pixels'"));
  CHECK(contains(error_of([] {
                   grey(8, 8).erase({0, 0, 2, 2}, {0, 0, 0});
                 }),
                 "want ToTensor before it"));
  CHECK(contains(error_of([] {
                   LazyImage image = grey(8, 8);
                   image.to_tensor();
                   image.erase({0, 0, 2, 2}, {0, 0, 0});
                   image.flip_horizontal();
                 }),
                 "flip: parts of 'white.png' are already erased; want flip before RandomErasing"));
}
