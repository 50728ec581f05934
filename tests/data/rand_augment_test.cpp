// RandAugment against torchvision's on Pillow's images: pixels, magnitudes and draws.
#include "core/data/transforms/transforms.h"

#include "core/data/images/affine.h"
#include "tests/data/drawn.h"
#include "tests/data/files.h"

#include <map>

using namespace booster;
using namespace booster::test;

namespace {

Image copy_of(const Image& image) { return lazy(image).pixels(); }

}  // namespace

TEST_CASE("every operation of RandAugment gives Pillow's pixels, to the bit") {
  const auto names = golden_json("rand_augment")["names"].get<std::vector<std::string>>();
  Reader reader("rand_augment.bin");
  std::vector<Image> sources;
  for (int i = 0; i < 3; ++i) {
    const auto size = reader.take<int32_t>(3);
    sources.push_back(reader.take_image(size[0], size[1], size[2]));
  }
  while (!reader.done()) {
    const auto n = reader.take<int32_t>(4);
    const double magnitude = reader.take<double>(1)[0];
    const std::string& name = names[static_cast<size_t>(n[0])];
    const Image& source = sources[static_cast<size_t>(n[1])];
    const Image wanted = reader.take_image(source.width(), source.height(), source.channels());
    const RandAugment augment(
        {.interpolation = n[2] ? AffineFilter::bilinear : AffineFilter::nearest,
         .fill = static_cast<uint8_t>(n[3])});
    INFO(name << " by " << magnitude << " of image " << std::to_string(n[1])
              << (n[2] ? ", bilinear" : ""));
    CHECK(difference(augment.applied({name, magnitude}, copy_of(source)), wanted) == 0);
  }
}

// Pillow's pixels. Its sine of 45 degrees, -0.70710678118654746, ends in 7 when rounded to 15
// places; with an 8 the second pixel would be 2.
TEST_CASE("a rotation rounds its sine and cosine as Pillow does") {
  Image image(2, 2, 1);
  const uint8_t pixels[] = {0, 1, 1, 3}, wanted[] = {0, 1, 0, 2};
  std::memcpy(image.data(), pixels, sizeof pixels);
  const Image turned = affine(image, rotation(45, 2, 2), AffineFilter::bilinear);
  CHECK(std::equal(std::begin(wanted), std::end(wanted), turned.data()));
}

TEST_CASE("operations are drawn alike often, with torchvision's magnitudes and either sign") {
  const auto golden = golden_json("rand_augment")["magnitudes"];
  for (const Json& one : golden) {
    CAPTURE(one["bins"].dump());
    CAPTURE(one["magnitude"].dump());
    const RandAugment augment(
        {.num_ops = 3, .magnitude = one["magnitude"], .num_magnitude_bins = one["bins"]});
    std::map<std::string, std::pair<int, int>> seen;  // positive and negative magnitudes
    std::map<std::string, double> magnitude;
    constexpr int draws = 2000;
    for (uint64_t i = 0; i < draws; ++i) {
      RandomStream random(1, 1, i);
      for (const auto& [name, value] : augment.draw(one["width"], one["height"], random)) {
        ++(std::signbit(value) ? seen[name].second : seen[name].first);
        magnitude[name] = std::abs(value);
      }
    }
    REQUIRE(seen.size() == 14);
    for (const Json& operation : one["operations"]) {
      const std::string name = operation[0];
      CAPTURE(name);
      CHECK(magnitude.at(name) == operation[1].get<double>());
      const auto [plus, minus] = seen.at(name);
      check_rate(plus + minus, 3 * draws, 1.0 / 14);
      if (operation[2].get<bool>())
        check_rate(minus, plus + minus, 0.5);
      else
        CHECK(minus == 0);
    }
  }
}

TEST_CASE("RandAugment changes an image by its sample's numbers alone, behind crops and flips") {
  const Image source = gradient(40, 30, 3);
  const auto augmented = [&](uint64_t sample) {
    LazyImage image = lazy(source);
    RandomStream random(3, 4, sample);
    Compose(RandomResizedCrop(16), RandomHorizontalFlip(), RandAugment({.magnitude = 20}))
        .apply(image, random);
    return image.pixels();
  };
  int changed = 0;
  for (uint64_t sample = 0; sample < 20; ++sample) {
    CHECK(difference(augmented(sample), augmented(sample)) == 0);
    LazyImage plain = lazy(source);
    RandomStream random(3, 4, sample);
    Compose(RandomResizedCrop(16), RandomHorizontalFlip()).apply(plain, random);
    if (difference(augmented(sample), plain.pixels()) > 0) ++changed;
  }
  CHECK(changed > 10);
}

TEST_CASE("RandAugment refuses what cannot be meant") {
  CHECK(error_of([] { RandAugment({.magnitude = 31}); }) ==
        "RandAugment: magnitude out of range; got 31, want 0 to 30, one less than "
        "num_magnitude_bins");
  CHECK(contains(error_of([] {
                   RandAugment().applied({"Shear", 0}, gradient(4, 4, 3));
                 }),
                 "unknown operation; got Shear"));
  CHECK(contains(error_of([] { affine_filter("bicubic"); }), "got 'bicubic'"));
  CHECK(contains(error_of([] {
                   LazyImage image = lazy(gradient(4, 4, 3));
                   image.to_tensor();
                   RandomStream random(1, 1, 1);
                   RandAugment().apply(image, random);
                 }),
                 "before ToTensor"));
}
