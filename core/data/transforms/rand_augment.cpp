#include "core/data/transforms/transforms.h"

#include "core/data/images/adjust.h"
#include "core/data/images/affine.h"
#include "platform/error.h"

#include <cmath>
#include <functional>
#include <iterator>

namespace booster {
namespace {

struct Place {
  const RandAugmentOptions& options;
  int width, height;
};

// Returns the value of the magnitude's bin between `first` and `last`, in f32 as torch.linspace
// computes it: from the nearer end.
double bin(const RandAugmentOptions& options, double first, double last) {
  const int bins = options.num_magnitude_bins, i = options.magnitude;
  const auto begin = static_cast<float>(first), end = static_cast<float>(last);
  if (bins == 1) return begin;
  const float step = (end - begin) / static_cast<float>(bins - 1);
  return i < bins / 2 ? begin + step * static_cast<float>(i)
                      : end - step * static_cast<float>(bins - i - 1);
}

double to_one(const Place& p) { return bin(p.options, 0, 0.9); }
double shear_size(const Place& p) { return bin(p.options, 0, 0.3); }
double none(const Place&) { return 0; }

double bits(const Place& p) {
  if (p.options.num_magnitude_bins == 1) return 8;
  const float per_bit = static_cast<float>(p.options.num_magnitude_bins - 1) / 4;
  return 8 - std::nearbyint(static_cast<float>(p.options.magnitude) / per_bit);
}

Image sheared(const RandAugmentOptions& options, const Image& image, double x, double y) {
  // torchvision converts to degrees and back.
  const auto slope = [](double size) { return std::tan(std::atan(size)); };
  return affine(image, {1, slope(x), 0, slope(y), 1, 0}, options.interpolation, options.fill);
}

Image moved(const RandAugmentOptions& options, const Image& image, double x, double y) {
  return affine(image, {1, 0, -std::trunc(x), 0, 1, -std::trunc(y)}, options.interpolation,
                options.fill);
}

// A row of torchvision's table.
struct Row {
  const char* name;
  bool is_signed;  // half of the time negated
  double (*magnitude)(const Place& place);
  Image (*apply)(const RandAugmentOptions& options, Image image, double magnitude);
};
using Options = RandAugmentOptions;

constexpr double translation = 150.0 / 331.0;  // the maximum, as a share of a side

const Row rows[] = {
    {"Identity", false, none, [](const Options&, Image x, double) { return x; }},
    {"ShearX", true, shear_size,
     [](const Options& o, Image x, double m) { return sheared(o, x, m, 0); }},
    {"ShearY", true, shear_size,
     [](const Options& o, Image x, double m) { return sheared(o, x, 0, m); }},
    {"TranslateX", true, [](const Place& p) { return bin(p.options, 0, translation * p.width); },
     [](const Options& o, Image x, double m) { return moved(o, x, m, 0); }},
    {"TranslateY", true, [](const Place& p) { return bin(p.options, 0, translation * p.height); },
     [](const Options& o, Image x, double m) { return moved(o, x, 0, m); }},
    {"Rotate", true, [](const Place& p) { return bin(p.options, 0, 30); },
     [](const Options& o, Image x, double m) {
       return m == 0 ? std::move(x)
                     : affine(x, rotation(m, x.width(), x.height()), o.interpolation, o.fill);
     }},
    {"Brightness", true, to_one,
     [](const Options&, Image x, double m) { return adjust_brightness(std::move(x), 1 + m); }},
    {"Color", true, to_one,
     [](const Options&, Image x, double m) { return adjust_color(std::move(x), 1 + m); }},
    {"Contrast", true, to_one,
     [](const Options&, Image x, double m) { return adjust_contrast(std::move(x), 1 + m); }},
    {"Sharpness", true, to_one,
     [](const Options&, Image x, double m) { return adjust_sharpness(std::move(x), 1 + m); }},
    {"Posterize", false, bits,
     [](const Options&, Image x, double m) {
       return posterize(std::move(x), static_cast<int>(m));
     }},
    {"Solarize", false, [](const Place& p) { return bin(p.options, 255, 0); },
     [](const Options&, Image x, double m) { return solarize(std::move(x), m); }},
    {"AutoContrast", false, none,
     [](const Options&, Image x, double) { return autocontrast(std::move(x)); }},
    {"Equalize", false, none,
     [](const Options&, Image x, double) { return equalize(std::move(x)); }},
};

const Row& row_named(const std::string& name) {
  std::vector<std::string> names;
  for (const Row& row : rows) {
    if (name == row.name) return row;
    names.push_back(row.name);
  }
  fail("RandAugment: unknown operation; got {}{}", name, legal_names(name, names));
}

}  // namespace

AffineFilter affine_filter(const std::string& name) {
  if (name == "nearest") return AffineFilter::nearest;
  if (name == "bilinear") return AffineFilter::bilinear;
  fail("RandAugment: unknown interpolation; got '{}'{}", name,
       legal_names(name, {"nearest", "bilinear"}));
}

RandAugment::RandAugment(RandAugmentOptions options) : options_(options) {
  check(options.num_ops >= 0, "RandAugment: num_ops out of range; got {}, want 0 or more",
        options.num_ops);
  check(options.num_magnitude_bins >= 1,
        "RandAugment: num_magnitude_bins out of range; got {}, want 1 or more",
        options.num_magnitude_bins);
  check(options.magnitude >= 0 && options.magnitude < options.num_magnitude_bins,
        "RandAugment: magnitude out of range; got {}, want 0 to {}, one less than "
        "num_magnitude_bins",
        options.magnitude, options.num_magnitude_bins - 1);
}

std::vector<RandAugment::Operation> RandAugment::draw(int width, int height,
                                                      RandomStream& random) const {
  std::vector<Operation> operations;
  for (int i = 0; i < options_.num_ops; ++i) {
    const Row& row = rows[random.below(std::size(rows))];
    const double magnitude = row.magnitude({options_, width, height});
    const bool turned = row.is_signed && random.below(2) == 1;
    operations.push_back({row.name, turned ? -magnitude : magnitude});
  }
  return operations;
}

Image RandAugment::applied(const Operation& operation, Image image) const {
  return row_named(operation.name).apply(options_, std::move(image), operation.magnitude);
}

void RandAugment::apply(LazyImage& image, RandomStream& random) const {
  const auto operations = draw(image.width(), image.height(), random);
  image.change_pixels([&](Image pixels) {
    for (const Operation& operation : operations) pixels = applied(operation, std::move(pixels));
    return pixels;
  });
}

}  // namespace booster
