// Transforms that change pixels, RandomCrop with its borders and ColorJitter, against
// torchvision's.
#include "core/data/images/adjust.h"
#include "core/data/images/hue.h"
#include "core/data/images/padding.h"
#include "core/data/transforms/transforms.h"
#include "tests/data/files.h"

#include <zlib.h>

#include <cmath>
#include <map>
#include <set>

using namespace booster;
using namespace booster::test;

namespace {

Image adjusted(int which, Image image, double factor) {
  constexpr decltype(&adjust_hue) functions[] = {adjust_brightness, adjust_contrast,
                                                 adjust_color, adjust_hue};
  return functions[which](std::move(image), factor);
}

bool is_part(const Image& part, const Image& whole, int left, int top) {
  for (int y = 0; y < part.height(); ++y)
    if (std::memcmp(part.row(y), whole.row(top + y) + left * whole.channels(), part.row_bytes()))
      return false;
  return true;
}

}  // namespace

TEST_CASE("borders are torchvision's in every mode") {
  Reader reader("padding.bin");
  int cases = 0;
  for (; !reader.done(); ++cases) {
    const auto n = reader.take<int32_t>(11);
    const Image source = reader.take_image(n[0], n[1], n[2]);
    const Borders borders(n[3], n[4], n[5], n[6]);
    const Image wanted = reader.take_image(n[0] + n[3] + n[5], n[1] + n[4] + n[6], n[2]);
    const Fill fill = n[2] == 3 ? Fill(n[8], n[9], n[10]) : Fill(n[8]);
    INFO("case " << cases << ", mode " << n[7]);
    CHECK(difference(padded(source, borders, static_cast<PaddingMode>(n[7]), fill), wanted) == 0);
  }
  CHECK(cases == 80);
}

TEST_CASE("colours change as torchvision's, in any order, and hue over the whole cube") {
  Reader reader("colors.bin");
  for (int cases = 0; cases < 120; ++cases) {
    const auto n = reader.take<int32_t>(8);
    const auto factors = reader.take<double>(4);
    Image image = reader.take_image(n[0], n[1], n[2]);
    const Image wanted = reader.take_image(n[0], n[1], n[2]);
    for (int i = 0; i < n[3]; ++i) image = adjusted(n[4 + i], std::move(image), factors[i]);
    INFO("case " << cases << ", first " << n[4] << " by " << factors[0]);
    CHECK(difference(image, wanted) == 0);
  }
  for (const double factor : {-0.5, -0.31, -0.1, 0.001, 0.0, 0.07, 0.25, 0.499, 0.5}) {
    Image cube(86 * 86, 86, 3);
    uint8_t* pixel = cube.data();
    for (int r = 0; r < 256; r += 3)
      for (int g = 0; g < 256; g += 3)
        for (int b = 0; b < 256; b += 3)
          for (const int value : {r, g, b}) *pixel++ = static_cast<uint8_t>(value);
    const Image turned = adjust_hue(std::move(cube), factor);
    CAPTURE(factor);
    CHECK(crc32(0, turned.data(), static_cast<unsigned>(turned.bytes())) ==
          reader.take<uint32_t>(1)[0]);
  }
  CHECK(reader.done());
}

TEST_CASE("RandomCrop takes every part of the padded image equally often") {
  const Image source = gradient(5, 4, 3);
  const RandomCrop crop(ImageSize(4, 3), {.padding = Borders(1, 2), .fill = Fill(9, 8, 7)});
  const Image whole = padded(source, Borders(1, 2), PaddingMode::constant, Fill(9, 8, 7));
  REQUIRE(whole.width() == 7);
  REQUIRE(whole.height() == 8);
  std::map<std::pair<int, int>, int> seen;
  constexpr int draws = 5000;
  for (int i = 0; i < draws; ++i) {
    LazyImage image = lazy(source);
    RandomStream random(3, 0, i);
    crop.apply(image, random);
    const Image part = image.pixels();
    REQUIRE(part.width() == 3);
    REQUIRE(part.height() == 4);
    bool found = false;
    for (int top = 0; top <= 4 && !found; ++top)
      for (int left = 0; left <= 4 && !found; ++left)
        if ((found = is_part(part, whole, left, top))) ++seen[{left, top}];
    CHECK(found);
  }
  CHECK(seen.size() == 25);
  for (const auto& [place, count] : seen) CHECK(std::abs(count - draws / 25) < 80);
}

TEST_CASE("pad_if_needed gives a side what it lacks at both ends, the width before the height") {
  const Image source = gradient(3, 2, 1);
  const RandomCrop crop(ImageSize(5, 6), {.pad_if_needed = true,
                                          .padding_mode = PaddingMode::reflect});
  const Image whole = padded(padded(source, {3, 0}, PaddingMode::reflect), {0, 3},
                             PaddingMode::reflect);
  std::set<std::pair<int, int>> seen;
  for (int i = 0; i < 300; ++i) {
    LazyImage image = lazy(source);
    RandomStream random(3, 0, i);
    crop.apply(image, random);
    const Image part = image.pixels();
    bool found = false;
    for (int top = 0; top <= 3; ++top)
      for (int left = 0; left <= 3; ++left)
        if (is_part(part, whole, left, top)) found = seen.insert({left, top}).second || true;
    CHECK(found);
  }
  CHECK(seen.size() == 16);
}

TEST_CASE("RandomCrop says what does not fit") {
  LazyImage image = lazy(gradient(3, 9, 1));
  RandomStream random(1, 2, 3);
  CHECK(contains(error_of([&] { RandomCrop(4).apply(image, random); }), "pad_if_needed"));
  CHECK(contains(error_of([&] { RandomCrop(2, {.padding = 1, .fill = Fill(1, 2, 3)})
                                    .apply(image, random); }),
                 "Gray2RGB"));
  CHECK_THROWS_AS(RandomCrop(0), Error);
  CHECK_THROWS_AS(RandomCrop(4, {.padding = -1}), Error);
  CHECK_THROWS_AS(padded(gradient(2, 2, 1), 1, PaddingMode::constant, 256), Error);
  LazyImage tensor = lazy(gradient(4, 4, 1));
  tensor.to_tensor();
  CHECK(contains(error_of([&] { RandomCrop(4, {.padding = 1}).apply(tensor, random); }),
                 "before ToTensor"));
}

TEST_CASE("ColorJitter draws torchvision's ranges and every order") {
  const ColorJitter jitter({.brightness = 0.4, .contrast = 1.5, .saturation = {0.5, 0.75}});
  std::set<std::array<int, 4>> orders;
  std::array<double, 3> least = {9, 9, 9}, most = {-9, -9, -9};
  for (int i = 0; i < 2000; ++i) {
    RandomStream random(8, 0, i);
    const auto choice = jitter.draw(random);
    orders.insert(choice.order);
    CHECK(!choice.factors[3]);
    for (size_t k = 0; k < 3; ++k) {
      least[k] = std::min(least[k], choice.factors[k].value());
      most[k] = std::max(most[k], choice.factors[k].value());
    }
  }
  CHECK(orders.size() == 24);
  const double low[] = {0.6, 0, 0.5}, high[] = {1.4, 2.5, 0.75};
  for (size_t k = 0; k < 3; ++k) {
    CHECK(least[k] >= low[k]);
    CHECK(least[k] < low[k] + 0.01);
    CHECK(most[k] <= high[k]);
    CHECK(most[k] > high[k] - 0.01);
  }
  CHECK_THROWS_AS(ColorJitter({.brightness = -0.1}), Error);
  CHECK_THROWS_AS(ColorJitter({.saturation = {0.9, 0.5}}), Error);
  CHECK_THROWS_AS(ColorJitter({.contrast = {-0.5, 0.5}}), Error);
  CHECK_THROWS_AS(ColorJitter({.hue = 0.6}), Error);
}

TEST_CASE("ColorJitter applies what it draws, in that order") {
  const ColorJitter jitter({.brightness = 0.5, .contrast = 0.5, .saturation = 0.5, .hue = 0.3});
  for (int i = 0; i < 50; ++i) {
    const Image source = gradient(7, 6, i % 2 ? 3 : 1, i);
    LazyImage image = lazy(source);
    RandomStream random(8, 0, i), again(8, 0, i);
    jitter.apply(image, random);
    const auto choice = jitter.draw(again);
    Image wanted = lazy(source).pixels();
    for (const int which : choice.order)
      wanted = adjusted(which, std::move(wanted), *choice.factors[which]);
    CHECK(difference(image.pixels(), wanted) == 0);
  }
}
