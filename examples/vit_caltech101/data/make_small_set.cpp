#include "examples/vit_caltech101/data/make_small_set.h"

#include <booster/booster.h>

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <numbers>

namespace booster {
namespace fs = std::filesystem;
namespace {

constexpr double tau = 2 * std::numbers::pi;

// Patterns return the share of the foreground colour at (x, y), in periods from the centre. Values
// of at most 0 mean none, of at least 1 all; edges are soft.
double soft(double distance) { return 0.5 + 6 * distance; }
double in_cell(double x) { return x - std::floor(x) - 0.5; }

double bars(double x, double) { return soft(0.25 - std::fabs(in_cell(x))); }
double checkerboard(double x, double y) {
  return soft(0.5 * std::sin(tau / 2 * x) * std::sin(tau / 2 * y));
}
double crosses(double x, double y) {
  const double u = std::fabs(in_cell(x)), v = std::fabs(in_cell(y));
  return soft(std::min(0.12 - std::min(u, v), 0.4 - std::max(u, v)));
}
double diamonds(double x, double y) {
  return soft(0.35 - std::fabs(in_cell(x)) - std::fabs(in_cell(y)));
}
double dots(double x, double y) { return soft(0.3 - std::hypot(in_cell(x), in_cell(y))); }
double ripples(double x, double y) {
  return soft(0.25 - std::fabs(in_cell(y + 0.35 * std::sin(tau / 2 * x))));
}
double rings(double x, double y) { return soft(0.25 - std::fabs(in_cell(std::hypot(x, y)))); }
double spokes(double x, double y) { return soft(0.3 * std::cos(7 * std::atan2(y, x))); }

struct Pattern {
  const char* name;
  double (*draw)(double x, double y);
};
constexpr Pattern patterns[] = {
    {"bars", bars}, {"checkerboard", checkerboard}, {"crosses", crosses}, {"diamonds", diamonds},
    {"dots", dots}, {"ripples", ripples},           {"rings", rings},     {"spokes", spokes},
};

struct Colour {
  double channel[3];
};

// `hue` is in turns; the others are in [0, 1].
Colour colour_of(double hue, double saturation, double value) {
  Colour colour;
  for (int c = 0; c < 3; ++c) {
    const double wave = 0.5 + 0.5 * std::cos(tau * (hue - c / 3.0));
    colour.channel[c] = 255 * value * (1 - saturation * (1 - wave));
  }
  return colour;
}

struct Size {
  int width, height;
};

// Like Caltech101: about 300 x 200, one in four in portrait format, a few much larger or smaller.
Size draw_size(RandomStream& random) {
  const bool odd = random.uniform() < 0.08, upright = random.uniform() < 0.25;
  const int long_side = odd ? static_cast<int>(random.uniform(120, 500)) : 300;
  const int short_side = static_cast<int>(long_side * random.uniform(0.55, 0.95));
  return upright ? Size{short_side, long_side} : Size{long_side, short_side};
}

// The random choices for one image.
struct Scene {
  Size size;
  bool grey;
  Colour front, back;
  double angle, period, centre_x, centre_y;
  double light_x, light_y;  // change of brightness over the image
  double noise;
};

// Each class has typical hues, as real objects do, so that a model learns colour first and shape
// later; grey images can be recognised only by shape.
Scene draw_scene(int label, RandomStream& random) {
  Scene scene;
  scene.size = draw_size(random);
  scene.grey = random.uniform() < 0.05;
  const double hue = (label + random.uniform(-0.4, 0.4)) / std::size(patterns);
  // One draw per statement: the evaluation order of arguments is unspecified.
  const double front_value = random.uniform(0.65, 1), front_saturation = random.uniform(0.6, 1);
  scene.front = colour_of(hue, front_saturation, front_value);
  const double back_value = random.uniform(0.1, 0.5), back_saturation = random.uniform(0, 0.35);
  scene.back = colour_of(random.uniform(), back_saturation, back_value);
  scene.angle = random.uniform(-0.2, 0.2);
  scene.period = std::max(scene.size.width, scene.size.height) * random.uniform(0.09, 0.18);
  scene.centre_x = scene.size.width * random.uniform(0.35, 0.65);
  scene.centre_y = scene.size.height * random.uniform(0.35, 0.65);
  scene.light_x = random.uniform(-0.25, 0.25);
  scene.light_y = random.uniform(-0.25, 0.25);
  scene.noise = random.uniform(6, 18);
  return scene;
}

uint8_t byte_of(double value) { return static_cast<uint8_t>(std::clamp(value, 0.0, 255.0)); }

Image render(const Scene& scene, double (*draw)(double, double), RandomStream& random) {
  const auto [width, height] = scene.size;
  Image image(width, height, scene.grey ? 1 : 3);
  const double c = std::cos(scene.angle) / scene.period, s = std::sin(scene.angle) / scene.period;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x) {
      const double dx = x - scene.centre_x, dy = y - scene.centre_y;
      const double front = std::clamp(draw(c * dx - s * dy, s * dx + c * dy), 0.0, 1.0);
      const double light = 1 + scene.light_x * dx / width + scene.light_y * dy / height;
      uint8_t* pixel = image.row(y) + x * image.channels();
      for (int k = 0; k < image.channels(); ++k) {
        const int from = scene.grey ? 1 : k;
        const double ink =
            front * scene.front.channel[from] + (1 - front) * scene.back.channel[from];
        pixel[k] = byte_of(light * ink + scene.noise * random.uniform(-1, 1));
      }
    }
  return image;
}

std::string make_jpeg(int label, int number, uint64_t seed) {
  RandomStream random(seed, static_cast<uint64_t>(label), static_cast<uint64_t>(number));
  const Scene scene = draw_scene(label, random);
  const Image image = render(scene, patterns[label].draw, random);
  return encode_jpeg(image, static_cast<int>(random.uniform(70, 90)));
}

void write_picture(const fs::path& path, const std::string& content) {
  std::ofstream file(path, std::ios::binary);
  file << content;
  if (!file.flush()) fail_run("small set: cannot write '{}'; want a disk with room", path.string());
}

constexpr const char* unfinished_name = "unfinished_";  // followed by the process ID

void write_classes(const fs::path& folder, const SmallSetOptions& options) {
  for (int label = 0; label < static_cast<int>(std::size(patterns)); ++label) {
    const fs::path name = folder / patterns[label].name;
    fs::create_directories(name);
    for (int i = 1; i <= options.images_per_class; ++i)
      write_picture(name / fmt::format("image_{:04}.jpg", i), make_jpeg(label, i, options.seed));
  }
}

// Removes what killed processes left.
void remove_unfinished(const fs::path& folder) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) {
    const std::string name = entry.path().filename().string(), start = unfinished_name;
    if (name.starts_with(start) && !fs::exists("/proc/" + name.substr(start.size()), none))
      fs::remove_all(entry.path(), none);
  }
}

}  // namespace

void make_small_set(const std::string& folder, const SmallSetOptions& options) {
  check(options.images_per_class >= 2 && options.images_per_class <= 9999,
        "small set: images_per_class out of range; got {}, want 2 to 9999",
        options.images_per_class);
  const fs::path images = fs::path(folder) / "101_ObjectCategories";
  const fs::path unfinished = fs::path(folder) / fmt::format("{}{}", unfinished_name, getpid());
  remove_unfinished(folder);
  try {
    if (fs::exists(images)) return;
    write_classes(unfinished, options);
    std::error_code other_was_first;
    fs::rename(unfinished, images, other_was_first);
    if (!fs::exists(images))
      throw fs::filesystem_error("rename", unfinished, images, other_was_first);
    fs::remove_all(unfinished);
  } catch (const fs::filesystem_error& error) {
    fail_run("small set: cannot write '{}': {}", error.path1().string(), error.code().message());
  }
}

}  // namespace booster
