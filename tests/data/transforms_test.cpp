#include "core/data/images/resize.h"
#include "core/data/transforms/transforms.h"
#include "tests/data/files.h"

#include <cmath>

using namespace booster;
using namespace booster::test;

namespace {

template <class... T>
LazyImage applied(const Image& image, T... transforms) {
  LazyImage result = lazy(image);
  RandomStream random(1, 2, 3);
  (transforms.apply(result, random), ...);
  return result;
}

const Normalize half({0.5, 0.5, 0.5}, {0.5, 0.5, 0.5});

}  // namespace

TEST_CASE("Resize, CenterCrop, ToTensor and Normalize give torchvision's numbers") {
  Reader reader("evaluation.bin");
  while (!reader.done()) {
    const auto n = reader.take<int32_t>(3);
    const Image source = reader.take_image(n[0], n[1], 3);
    const auto wanted = reader.take<float>(3 * 12 * 12);
    const Compose transform(Resize(n[2]), CenterCrop(12), ToTensor(),
                            Normalize({0.485, 0.456, 0.406}, {0.229, 0.224, 0.225}));
    INFO(n[0] << " x " << n[1]);
    CHECK(pixels_of(applied(source, transform)) == wanted);
  }
}

TEST_CASE("the tutorial's chain gives torchvision's numbers for the same random choices") {
  Reader reader("training.bin");
  while (!reader.done()) {
    const auto n = reader.take<int32_t>(7);
    const Image source = reader.take_image(n[0], n[1], 3);
    const auto wanted = reader.take<float>(3 * 20 * 20);
    LazyImage image = applied(source, Resize(32));
    image.crop({n[2], n[3], n[4], n[5]});
    image.resize(20, 20, Interpolation::bilinear);
    if (n[6]) image.flip_horizontal();
    image.to_tensor();
    image.normalize({0.5, 0.5, 0.5}, {0.5, 0.5, 0.5});
    CHECK(pixels_of(image) == wanted);
  }
}

TEST_CASE("Resize keeps the aspect, truncates the long side and obeys max_size") {
  const auto size = [](const LazyImage& image) { return std::pair(image.width(), image.height()); };
  CHECK(size(applied(gradient(300, 230, 3), Resize(256))) == std::pair(333, 256));
  CHECK(size(applied(gradient(230, 300, 3), Resize(256))) == std::pair(256, 333));
  CHECK(size(applied(gradient(30, 20, 1), Resize(ImageSize(7, 9)))) == std::pair(9, 7));
  CHECK(size(applied(gradient(300, 100, 1), Resize(50, {.max_size = 90}))) == std::pair(90, 30));
  CHECK(size(applied(gradient(8, 8, 1), Resize(8))) == std::pair(8, 8));
}

TEST_CASE("a resize that would make too many pixels is a bad image") {
  const std::string text = error_of([] { applied(gradient(16384, 8, 1), Resize(256)); });
  CHECK(contains(text, "bad image 'test.jpg'"));
  CHECK(contains(text, "524288 x 256"));
}

TEST_CASE("flips, crops and resizes in any order equal making each step whole") {
  const Image source = gradient(50, 40, 3);
  LazyImage image = lazy(source);
  image.flip_horizontal();
  image.crop({5, 3, 30, 20});
  image.resize(45, 31, Interpolation::bicubic);
  image.crop({10, 2, 20, 25});
  image.flip_horizontal();

  Image flipped(50, 40, 3);
  for (int y = 0; y < 40; ++y)
    for (int x = 0; x < 50; ++x)
      std::memcpy(flipped.row(y) + 3 * x, source.row(y) + 3 * (49 - x), 3);
  const Image resized = resize(flipped, 45, 31, Interpolation::bicubic, {5, 3, 30, 20});
  Image wanted(20, 25, 3);
  for (int y = 0; y < 25; ++y)
    for (int x = 0; x < 20; ++x)
      std::memcpy(wanted.row(y) + 3 * x, resized.row(y + 2) + 3 * (10 + 19 - x), 3);
  CHECK(difference(image.pixels(), wanted) == 0);
}

TEST_CASE("grey becomes three equal channels before or after ToTensor") {
  const Image grey = gradient(9, 7, 1);
  const auto before = pixels_of(applied(grey, Gray2RGB(), ToTensor(), half));
  const auto after = pixels_of(applied(grey, ToTensor(), Gray2RGB(), half));
  CHECK(before == after);
  REQUIRE(before.size() == 3 * 63);
  for (int i = 0; i < 63; ++i) {
    CHECK(before[i] == (static_cast<float>(grey.data()[i]) / 255.0f - 0.5f) / 0.5f);
    CHECK(before[i] == before[63 + i]);
    CHECK(before[i] == before[126 + i]);
  }
}

TEST_CASE("RandomResizedCrop keeps to its ranges and uses all of them") {
  const RandomResizedCrop crop(224);
  double smallest = 1, largest = 0, sum = 0;
  constexpr int n = 4000;
  for (int i = 0; i < n; ++i) {
    RandomStream random(42, 0, i);
    const Box box = crop.draw(333, 256, random);
    REQUIRE(box.left >= 0);
    REQUIRE(box.top >= 0);
    REQUIRE(box.left + box.width <= 333);
    REQUIRE(box.top + box.height <= 256);
    const double ratio = double(box.width) / box.height;
    CHECK(ratio > 0.73);
    CHECK(ratio < 1.36);
    const double area = double(box.width) * box.height / (333.0 * 256);
    smallest = std::min(smallest, area);
    largest = std::max(largest, area);
    sum += area;
  }
  CHECK(smallest < 0.1);
  CHECK(largest > 0.95);
  CHECK(std::abs(sum / n - 0.45) < 0.02);  // torchvision: 0.449; many large areas do not fit
}

TEST_CASE("RandomResizedCrop falls back to the largest central part of a legal shape") {
  const RandomResizedCrop crop(8, {.scale = {1, 1}});
  RandomStream random(1, 1, 1);
  CHECK(crop.draw(1000, 10, random) == Box{493, 0, 13, 10});
  CHECK(crop.draw(10, 1000, random) == Box{0, 493, 10, 13});
  CHECK(crop.draw(1, 1, random) == Box{0, 0, 1, 1});
}

TEST_CASE("RandomHorizontalFlip flips as often as it says") {
  int flips = 0;
  const Image image = gradient(2, 1, 1);
  for (int i = 0; i < 2000; ++i) {
    LazyImage result = lazy(image);
    RandomStream random(5, 0, i);
    RandomHorizontalFlip(0.25).apply(result, random);
    flips += result.pixels().data()[0] != image.data()[0];
  }
  CHECK(flips > 430);
  CHECK(flips < 570);
}

TEST_CASE("random streams differ by seed, epoch and index and repeat for the same") {
  const auto draw = [](uint64_t seed, uint64_t epoch, uint64_t index) {
    RandomStream random(seed, epoch, index);
    return random.uniform();
  };
  CHECK(draw(1, 2, 3) == draw(1, 2, 3));
  CHECK(draw(1, 2, 3) != draw(0, 2, 3));
  CHECK(draw(1, 2, 3) != draw(1, 3, 3));
  CHECK(draw(1, 2, 3) != draw(1, 3, 2));
}

TEST_CASE("a uniform number of a random stream is never its upper bound") {
  RandomStream random(1, 2, 3);
  for (int i = 0; i < 100; ++i) {
    CHECK(random.uniform(1, std::nextafter(1.0, 2.0)) == 1);
    CHECK(random.uniform(-3, std::nextafter(-3.0, 0.0)) == -3);
    CHECK(random.uniform(2, 2) == 2);
  }
}

TEST_CASE("transforms in a wrong order or with wrong numbers say what to do") {
  const Image grey = gradient(9, 7, 1);
  CHECK(contains(error_of([&] { applied(grey, ToTensor(), half); }), "want Gray2RGB before it"));
  CHECK(contains(error_of([&] { applied(grey, half); }), "want ToTensor before it"));
  CHECK(contains(error_of([&] { applied(grey, ToTensor(), Resize(4)); }), "before ToTensor"));
  CHECK(contains(error_of([&] { pixels_of(applied(grey, Resize(4))); }), "want ToTensor"));
  CHECK_THROWS_AS(Resize(0), Error);
  CHECK_THROWS_AS(RandomResizedCrop(224, {.scale = {0.5, 0.1}}), Error);
  CHECK_THROWS_AS(RandomHorizontalFlip(1.5), Error);
  CHECK_THROWS_AS(Normalize({0.5}, {0}), Error);
  CHECK_THROWS_AS(Normalize({0.5, 0.5}, {1, 1}), Error);
}
