#include "core/data/images/hue.h"

#include "platform/error.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace booster {
namespace {

// Hue, saturation and value in bytes. The hue circle has 255 steps, truncated. Intermediate results
// are f32 where Pillow's are, because the last bits decide where a step ends.
struct Hsv {
  uint8_t hue = 0, saturation = 0, value = 0;
};

Hsv hsv_of(const uint8_t* rgb) {
  const auto [r, g, b] = std::array{rgb[0], rgb[1], rgb[2]};
  const uint8_t most = std::max({r, g, b}), least = std::min({r, g, b});
  if (most == least) return {.value = most};
  const auto range = static_cast<float>(most - least);
  const auto below = [&](uint8_t x) { return static_cast<float>(most - x) / range; };
  float sixths = 0;
  if (r == most) sixths = below(b) - below(g);
  else if (g == most) sixths = static_cast<float>(2.0 + below(r) - below(b));
  else sixths = static_cast<float>(4.0 + below(g) - below(r));
  const auto turn = static_cast<float>(std::fmod(sixths / 6.0 + 1.0, 1.0));
  const float saturation = range / static_cast<float>(most);
  return {static_cast<uint8_t>(turn * 255.0), static_cast<uint8_t>(saturation * 255.0), most};
}

void write_rgb(const Hsv& hsv, uint8_t* rgb) {
  const uint8_t v = hsv.value;
  const double sixths = hsv.hue * 6.0 / 255.0;
  const int sector = static_cast<int>(sixths);
  const auto rest = static_cast<float>(sixths - sector);
  const float saturation = static_cast<float>(hsv.saturation) / 255.0f;
  const auto part = [&](double less) {
    return static_cast<uint8_t>(std::clamp(std::round(static_cast<float>(v) * less), 0.0, 255.0));
  };
  const uint8_t low = part(1.0 - saturation), falling = part(1.0 - saturation * rest),
                rising = part(1.0 - saturation * (1.0 - rest));
  const uint8_t sectors[6][3] = {{v, rising, low}, {falling, v, low}, {low, v, rising},
                                 {low, falling, v}, {rising, low, v}, {v, low, falling}};
  std::copy_n(sectors[sector % 6], 3, rgb);
}

}  // namespace

Image adjust_hue(Image image, double factor) {
  check(factor >= -0.5 && factor <= 0.5,
        "adjust_hue: factor out of range; got {}, want -0.5 to 0.5", factor);
  if (image.channels() == 1) return image;
  const int turn = static_cast<int>(factor * 255);
  uint8_t* pixel = image.data();
  for (const uint8_t* end = pixel + image.bytes(); pixel != end; pixel += 3) {
    Hsv hsv = hsv_of(pixel);
    hsv.hue = static_cast<uint8_t>(hsv.hue + turn);
    write_rgb(hsv, pixel);
  }
  return image;
}

}  // namespace booster
