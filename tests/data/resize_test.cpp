#include "core/data/images/resize.h"
#include "tests/data/files.h"

#include <cmath>

using namespace booster;
using namespace booster::test;

TEST_CASE("resizing gives Pillow's pixels bit for bit, with and without a box") {
  Reader reader("resize.bin");
  while (!reader.done()) {
    const auto n = reader.take<int32_t>(8);
    const int width = n[0], height = n[1], channels = n[2];
    const Image source = reader.take_image(width, height, channels);
    const Image wanted = reader.take_image(n[3], n[4], channels);
    const auto filter = n[5] ? Interpolation::bicubic : Interpolation::bilinear;
    const Box box = {n[6], n[7], width - n[6], height - n[7]};
    INFO(width << " x " << height << " to " << n[3] << " x " << n[4]);
    CHECK(difference(resize(source, n[3], n[4], filter, box), wanted) == 0);
  }
}

TEST_CASE("any part of a result computed alone equals that part of the whole") {
  const Image source = gradient(61, 47, 3);
  for (auto filter : {Interpolation::bilinear, Interpolation::bicubic})
    for (auto [width, height] : {std::pair{90, 70}, {20, 15}, {61, 20}, {80, 9}}) {
      const Image whole = resize(source, width, height, filter);
      const Box part = {width / 5, height / 4, width / 2, height / 3};
      Taps x, y;
      x.compute(61, width, filter, part.left, part.left + part.width);
      y.compute(47, height, filter, part.top, part.top + part.height);
      Image between, out;
      resample({source.data(), source.row_bytes(), 3, 0, 0}, x, y, between, out);
      int largest = 0;
      for (int row = 0; row < part.height; ++row)
        for (int i = 0; i < part.width * 3; ++i)
          largest = std::max(
              largest, std::abs(out.row(row)[i] - whole.row(part.top + row)[part.left * 3 + i]));
      CHECK(largest == 0);
    }
}

TEST_CASE("a flat image stays flat at any size") {
  Image image(13, 7, 3);
  std::memset(image.data(), 201, image.bytes());
  for (auto filter : {Interpolation::bilinear, Interpolation::bicubic})
    for (auto [width, height] : {std::pair{1, 1}, {200, 3}, {5, 100}, {13, 50}}) {
      const Image out = resize(image, width, height, filter);
      for (size_t i = 0; i < out.bytes(); ++i) REQUIRE(out.data()[i] == 201);
    }
}

TEST_CASE("a box beyond the image and sizes below one are refused") {
  const Image image = gradient(10, 8, 1);
  const auto filter = Interpolation::bilinear;
  CHECK_THROWS_AS(resize(image, 0, 5), Error);
  CHECK_THROWS_AS(resize(image, 5, 5, filter, {5, 0, 6, 8}), Error);
  CHECK_THROWS_AS(resize(image, 5, 5, filter, {0, -1, 5, 5}), Error);
  CHECK_THROWS_AS(resize(image, 5, 5, filter, {0, 0, 0, 5}), Error);
  CHECK_THROWS_AS(resize(image, 5, 5, filter, {1, 0, 2147483647, 5}), Error);
}
