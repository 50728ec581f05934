#include "core/data/images/adjust.h"

#include "platform/error.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace booster {
namespace {

// Returns Pillow's luma, by ITU-R 601 with 16 fraction bits.
uint8_t luma(const uint8_t* rgb) {
  return static_cast<uint8_t>((rgb[0] * 19595 + rgb[1] * 38470 + rgb[2] * 7471 + 0x8000) >> 16);
}

uint8_t grey_of(const Image& image, size_t pixel) {
  const uint8_t* at = image.data() + pixel * image.channels();
  return image.channels() == 1 ? *at : luma(at);
}

size_t pixels_of(const Image& image) { return size_t(image.width()) * image.height(); }

// Computes in f32 and truncates instead of rounding, as Image.blend does.
uint8_t blended(uint8_t from, uint8_t to, float factor) {
  const float value = static_cast<float>(from) + factor * static_cast<float>(int{to} - int{from});
  return static_cast<uint8_t>(std::clamp(value, 0.0f, 255.0f));
}

// Blends with the degenerate image, whose byte i is from(i).
template <class From>
void blend(Image& image, double factor, From&& from) {
  if (factor == 1) return;
  for (size_t i = 0; i < image.bytes(); ++i)
    image.data()[i] = blended(from(i), image.data()[i], static_cast<float>(factor));
}

using Table = std::array<uint8_t, 256>;

void look_up(Image& image, int channel, const Table& table) {
  for (size_t i = static_cast<size_t>(channel); i < image.bytes(); i += image.channels())
    image.data()[i] = table[image.data()[i]];
}

std::array<int64_t, 256> histogram(const Image& image, int channel) {
  std::array<int64_t, 256> counts = {};
  for (size_t i = static_cast<size_t>(channel); i < image.bytes(); i += image.channels())
    ++counts[image.data()[i]];
  return counts;
}

// Returns the weighted mean of each pixel (weight 5) and its eight neighbours; border pixels stay.
Image smoothed(const Image& image) {
  Image out(image.width(), image.height(), image.channels());
  std::memcpy(out.data(), image.data(), image.bytes());
  const int step = image.channels();
  for (int y = 1; y + 1 < image.height(); ++y)
    for (size_t x = static_cast<size_t>(step); x + step < image.row_bytes(); ++x) {
      int sum = 4 * image.row(y)[x];
      for (int line = y - 1; line <= y + 1; ++line)
        for (const size_t column : {x - step, x, x + step}) sum += image.row(line)[column];
      out.row(y)[x] = static_cast<uint8_t>((2 * sum + 13) / 26);
    }
  return out;
}

}  // namespace

Image adjust_brightness(Image image, double factor) {
  blend(image, factor, [](size_t) { return uint8_t{0}; });
  return image;
}

Image adjust_color(Image image, double factor) {
  if (image.channels() == 1 || factor == 1) return image;
  for (size_t i = 0; i < pixels_of(image); ++i) {
    const uint8_t grey = grey_of(image, i);
    for (uint8_t* at = image.data() + 3 * i; at != image.data() + 3 * i + 3; ++at)
      *at = blended(grey, *at, static_cast<float>(factor));
  }
  return image;
}

Image adjust_contrast(Image image, double factor) {
  int64_t sum = 0;
  const size_t pixels = pixels_of(image);
  for (size_t i = 0; i < pixels; ++i) sum += grey_of(image, i);
  const auto mean =
      static_cast<uint8_t>(static_cast<double>(sum) / static_cast<double>(pixels) + 0.5);
  blend(image, factor, [=](size_t) { return mean; });
  return image;
}

Image adjust_sharpness(Image image, double factor) {
  const Image smooth = smoothed(image);
  blend(image, factor, [&](size_t i) { return smooth.data()[i]; });
  return image;
}

Image posterize(Image image, int bits) {
  check(bits >= 1 && bits <= 8, "posterize: bits out of range; got {}, want 1 to 8", bits);
  const auto mask = static_cast<uint8_t>(0xff << (8 - bits));
  for (size_t i = 0; i < image.bytes(); ++i) image.data()[i] &= mask;
  return image;
}

Image solarize(Image image, double threshold) {
  for (size_t i = 0; i < image.bytes(); ++i)
    if (image.data()[i] >= threshold) image.data()[i] = static_cast<uint8_t>(255 - image.data()[i]);
  return image;
}

Image autocontrast(Image image) {
  for (int c = 0; c < image.channels(); ++c) {
    const auto counts = histogram(image, c);
    const auto present = [](int64_t count) { return count > 0; };
    const auto low = std::ranges::find_if(counts, present) - counts.begin();
    auto high = low;
    for (int i = 0; i < 256; ++i)
      if (counts[static_cast<size_t>(i)] > 0) high = i;
    if (high <= low) continue;
    const double scale = 255.0 / static_cast<double>(high - low);
    const double offset = static_cast<double>(-low) * scale;
    Table table;
    for (int i = 0; i < 256; ++i)
      table[static_cast<size_t>(i)] =
          static_cast<uint8_t>(std::clamp(static_cast<int>(i * scale + offset), 0, 255));
    look_up(image, c, table);
  }
  return image;
}

Image equalize(Image image) {
  for (int c = 0; c < image.channels(); ++c) {
    const auto counts = histogram(image, c);
    int64_t sum = 0, last = 0;
    for (const int64_t count : counts) {
      sum += count;
      if (count > 0) last = count;
    }
    const int64_t step = (sum - last) / 255;
    if (step == 0) continue;
    Table table;
    int64_t n = step / 2;
    for (size_t i = 0; i < 256; ++i) {
      table[i] = static_cast<uint8_t>(std::min<int64_t>(n / step, 255));
      n += counts[i];
    }
    look_up(image, c, table);
  }
  return image;
}

}  // namespace booster
