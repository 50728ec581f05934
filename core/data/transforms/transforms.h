// Image transforms with torchvision's names, arguments and results. Transforms are immutable
// values: many threads may use one at the same time.
//
//   Compose transform(Resize(256), RandomResizedCrop(224), RandomHorizontalFlip(), ToTensor(),
//                     Gray2RGB(), Normalize({0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}));
#pragma once

#include "core/data/images/lazy_image.h"
#include "core/data/random_stream.h"

#include <concepts>
#include <memory>
#include <vector>

namespace booster {

class Transform {
 public:
  virtual ~Transform() = default;
  // `random` is the sample's own stream.
  virtual void apply(LazyImage& image, RandomStream& random) const = 0;
};

// Applies transforms in sequence. An empty list changes nothing.
class Compose : public Transform {
 public:
  Compose() = default;
  template <std::derived_from<Transform>... T>
  requires(sizeof...(T) > 1 ||
           (!std::same_as<T, Compose> && ...)) explicit Compose(T... transforms) {
    (add(std::make_shared<T>(std::move(transforms))), ...);
  }
  void add(std::shared_ptr<const Transform> transform) { steps_.push_back(std::move(transform)); }
  void apply(LazyImage& image, RandomStream& random) const override;

 private:
  std::vector<std::shared_ptr<const Transform>> steps_;
};

// Height and width; one number means a square.
struct ImageSize {
  int height, width;
  ImageSize(int side) : height(side), width(side) {}  // NOLINT: 224 is a size
  ImageSize(int height, int width) : height(height), width(width) {}
};

struct ResizeOptions {
  Interpolation interpolation = Interpolation::bilinear;
  int max_size = 0;  // limit on the long side if one number is given; 0: none
};

// Resizes the short side to one number; the long side becomes int(size * long / short). With two
// numbers, resizes to that height and width.
class Resize : public Transform {
 public:
  explicit Resize(int size, ResizeOptions options = {});
  explicit Resize(ImageSize size, ResizeOptions options = {});
  void apply(LazyImage& image, RandomStream& random) const override;

 private:
  bool keeps_aspect_;
  ImageSize size_;
  ResizeOptions options_;
};

struct RandomResizedCropOptions {
  struct Range {
    double low, high;
  };
  Range scale = {0.08, 1.0};         // of the area
  Range ratio = {3.0 / 4, 4.0 / 3};  // width / height
  Interpolation interpolation = Interpolation::bilinear;
};

// Crops a part of random area and aspect ratio and resizes it. If ten draws do not fit, takes the
// largest central part with a legal aspect ratio.
class RandomResizedCrop : public Transform {
 public:
  explicit RandomResizedCrop(ImageSize size, RandomResizedCropOptions options = {});
  void apply(LazyImage& image, RandomStream& random) const override;
  // Draws the part to crop from an image of this size.
  Box draw(int width, int height, RandomStream& random) const;

 private:
  Box central(int width, int height) const;
  ImageSize size_;
  RandomResizedCropOptions options_;
};

class RandomHorizontalFlip : public Transform {
 public:
  explicit RandomHorizontalFlip(double p = 0.5);
  void apply(LazyImage& image, RandomStream& random) const override;

 private:
  double p_;
};

// Crops the centre; an image that is too small first gets a black border. Offsets are rounded half
// to even.
class CenterCrop : public Transform {
 public:
  explicit CenterCrop(ImageSize size);
  void apply(LazyImage& image, RandomStream& random) const override;

 private:
  ImageSize size_;
};

// Converts bytes to floats, byte / 255, channels first.
class ToTensor : public Transform {
 public:
  void apply(LazyImage& image, RandomStream& random) const override;
};

// Repeats grey images in three equal channels; others do not change. Use before or after ToTensor.
class Gray2RGB : public Transform {
 public:
  void apply(LazyImage& image, RandomStream& random) const override;
};

// (x - mean) / std, per channel.
class Normalize : public Transform {
 public:
  Normalize(std::vector<double> mean, std::vector<double> std);
  void apply(LazyImage& image, RandomStream& random) const override;

 private:
  std::vector<double> mean_, std_;
};

}  // namespace booster
