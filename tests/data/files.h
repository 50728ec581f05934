// Files for the data tests: golden files, generated images, and (by include) temporary folders.
#pragma once

#include "core/data/images/image.h"
#include "platform/error.h"
#include "tests/booster/temporary_folder.h"
#include "tests/error_of.h"
#include "tests/golden_folder.h"

#include <doctest/doctest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

namespace booster::test {

inline std::string golden_path(const std::string& name) {
  return golden_folder() + "/data/" + name;
}

inline std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  REQUIRE_MESSAGE(file.good(), path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

inline std::span<const uint8_t> bytes_of(const std::string& text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

// Reads values from a golden binary file, front to back.
class Reader {
 public:
  explicit Reader(const std::string& name) : data_(read_file(golden_path(name))) {}
  bool done() const { return at_ == data_.size(); }
  template <class T>
  std::vector<T> take(size_t n) {
    REQUIRE(at_ + n * sizeof(T) <= data_.size());
    std::vector<T> values(n);
    std::memcpy(values.data(), data_.data() + at_, n * sizeof(T));
    at_ += n * sizeof(T);
    return values;
  }
  Image take_image(int width, int height, int channels) {
    Image image(width, height, channels);
    const auto bytes = take<uint8_t>(image.bytes());
    std::memcpy(image.data(), bytes.data(), bytes.size());
    return image;
  }

 private:
  std::string data_;
  size_t at_ = 0;
};

// Returns the image of a golden NAME.raw.
inline Image golden_pixels(const std::string& name) {
  const std::string text = read_file(golden_path(name + ".raw"));
  std::istringstream header(text);
  int width = 0, height = 0, channels = 0;
  header >> width >> height >> channels;
  Image image(width, height, channels);
  std::memcpy(image.data(), text.data() + text.find('\n') + 1, image.bytes());
  return image;
}

// Returns the largest difference of two images, 256 if they differ in size.
inline int difference(const Image& a, const Image& b) {
  if (a.width() != b.width() || a.height() != b.height() || a.channels() != b.channels())
    return 256;
  int largest = 0;
  for (size_t i = 0; i < a.bytes(); ++i)
    largest = std::max(largest, std::abs(int{a.data()[i]} - int{b.data()[i]}));
  return largest;
}

// Returns an image with a gradient that depends on `seed`.
inline Image gradient(int width, int height, int channels, int seed = 0) {
  Image image(width, height, channels);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      for (int c = 0; c < channels; ++c)
        image.row(y)[x * channels + c] =
            static_cast<uint8_t>((x * (3 + c) + y * (5 - c) + seed * 37) & 255);
  return image;
}

// Returns a copy of the image in the form that transforms take.
inline LazyImage lazy(const Image& image) {
  auto copy = std::make_shared<Image>(image.width(), image.height(), image.channels());
  std::memcpy(copy->data(), image.data(), image.bytes());
  return LazyImage(std::move(copy), "test.jpg");
}
// Returns the image's values, channel by channel.
inline std::vector<float> pixels_of(const LazyImage& image) {
  std::vector<float> out(size_t(image.channels()) * image.height() * image.width());
  image.write(out.data());
  return out;
}

}  // namespace booster::test
