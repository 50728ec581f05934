// Image transforms, and mixup and CutMix of whole batches, with torchvision's names, arguments and
// results. Transforms are immutable values: many threads may use one at the same time.
//
//   Compose transform(Resize(256), RandomResizedCrop(224), RandomHorizontalFlip(), ToTensor(),
//                     Gray2RGB(), Normalize({0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}));
#pragma once

#include "core/data/dataset.h"
#include "core/data/images/image.h"

#include <array>
#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace booster {

class Transform {
 public:
  virtual ~Transform() = default;
  // Applies the transform. `random` is the sample's own stream.
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

// Crops a part of random area and aspect ratio and resizes it. If ten draws exceed the image, takes
// the largest central part with a legal aspect ratio.
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

// Repeats grey images in three equal channels; colour images do not change. Use before or after
// ToTensor.
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

// --- torchvision's ColorJitter: changes brightness, contrast, saturation and hue by random factors
// in a random order. Immutable; thread-safe.
//
//   ColorJitter({.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1})

// The range from which a factor is drawn: [low, high], or a spread x around no change. x means
// [max(0, 1 - x), 1 + x], and [-x, x] for hue.
class JitterRange {
 public:
  JitterRange(double spread) : spread_(spread) {}  // NOLINT: 0.4 is a range
  JitterRange(double low, double high) : low_(low), high_(high) {}
  std::array<double, 2> around(double none, bool can_be_negative) const;

 private:
  std::optional<double> spread_;
  double low_ = 0, high_ = 0;
};

struct ColorJitterOptions {
  JitterRange brightness = 0, contrast = 0, saturation = 0;
  JitterRange hue = 0;  // parts of the colour circle, -0.5 to 0.5
};

class ColorJitter : public Transform {
 public:
  explicit ColorJitter(ColorJitterOptions options);
  // Use before ToTensor.
  void apply(LazyImage& image, RandomStream& random) const override;

  // The factors of brightness, contrast, saturation and hue, empty where unchanged, and the order
  // in which they are applied.
  struct Choice {
    std::array<std::optional<double>, 4> factors;
    std::array<int, 4> order;
  };
  Choice draw(RandomStream& random) const;

 private:
  std::array<std::array<double, 2>, 4> ranges_;
};

// --- RandAugment (Cubuk et al., 2020) as in torchvision, with Pillow's results on images. It
// applies num_ops random operations of fourteen, all of one magnitude. Use before ToTensor.
// Immutable: many threads may use one at the same time.
//
//   Compose(RandomResizedCrop(224), RandomHorizontalFlip(), RandAugment(), ToTensor(), ...);

// The defaults are torchvision's.
struct RandAugmentOptions {
  int num_ops = 2;
  int magnitude = 9;  // of 0 to num_magnitude_bins - 1
  int num_magnitude_bins = 31;
  AffineFilter interpolation = AffineFilter::nearest;  // of shears, translations and rotations
  uint8_t fill = 0;                                    // for pixels with no source
};
// Returns the filter "nearest" or "bilinear"; throws with the legal names otherwise.
AffineFilter affine_filter(const std::string& name);

class RandAugment : public Transform {
 public:
  explicit RandAugment(RandAugmentOptions options = {});
  void apply(LazyImage& image, RandomStream& random) const override;

  // One of torchvision's operations: "Identity", "ShearX", "ShearY", "TranslateX", "TranslateY",
  // "Rotate", "Brightness", "Color", "Contrast", "Sharpness", "Posterize", "Solarize",
  // "AutoContrast", "Equalize".
  struct Operation {
    std::string name;
    double magnitude = 0;
  };
  // Draws the operations for an image of this size.
  std::vector<Operation> draw(int width, int height, RandomStream& random) const;
  // Applies an operation. Throws for an unknown name.
  Image applied(const Operation& operation, Image image) const;

 private:
  RandAugmentOptions options_;
};

// --- torchvision's RandomCrop: a part of fixed size at a random place of an image, after an
// optional border. Immutable; thread-safe.
//
//   Compose transform(RandomCrop(32, {.padding = 4}), RandomHorizontalFlip(), ToTensor());

struct RandomCropOptions {
  Borders padding = {};
  bool pad_if_needed = false;  // pads a too short side at both ends by its shortfall
  Fill fill = 0;               // for PaddingMode::constant
  PaddingMode padding_mode = PaddingMode::constant;
};

class RandomCrop : public Transform {
 public:
  explicit RandomCrop(ImageSize size, RandomCropOptions options = {});
  // Crops. An image smaller than the part, even after padding, is a bad image. If it pads, use it
  // before ToTensor.
  void apply(LazyImage& image, RandomStream& random) const override;

 private:
  void pad(LazyImage& image) const;
  ImageSize size_;
  RandomCropOptions options_;
};

// --- Erases a random rectangle of an image tensor (Zhong et al., "Random erasing data
// augmentation", 2017), drawn as in timm and torchvision. Use after ToTensor, Gray2RGB and
// Normalize. Immutable: many threads may use one at the same time.
//
//   Compose(..., ToTensor(), Gray2RGB(), Normalize(mean, std), RandomErasing({.p = 0.25}));

// Fill of the rectangle, in the tensor's values: after Normalize, 0 is the mean.
enum class ErasingMode {
  zero,   // 0; "const"
  color,  // one normal value per channel; "rand"
  pixel,  // one normal value per element; "pixel"
};
// Returns the mode with this name of timm's; throws with the legal names otherwise.
ErasingMode erasing_mode(const std::string& name);

struct RandomErasingOptions {
  double p = 0.5;  // probability of erasing
  struct Range {
    double low, high;
  };
  Range scale = {0.02, 1.0 / 3};   // of the image's area; all rectangles together
  Range ratio = {0.3, 1.0 / 0.3};  // height / width
  ErasingMode mode = ErasingMode::zero;
  int min_count = 1, max_count = 1;  // number of rectangles, which share the area equally
};

class RandomErasing : public Transform {
 public:
  explicit RandomErasing(RandomErasingOptions options = {});
  void apply(LazyImage& image, RandomStream& random) const override;
  // Draws the rectangles for an image of this size. Drops a rectangle after ten draws that exceed
  // the image. As in timm and torchvision, rectangles are smaller than the image in both
  // directions.
  std::vector<Box> draw(int width, int height, RandomStream& random) const;

 private:
  RandomErasingOptions options_;
};

// --- mixup (Zhang et al., 2018) and CutMix (Yun et al., 2019) of a batch with itself in reverse
// order, as timm's Mixup: sample i is mixed with sample n - 1 - i. There is one draw for the batch,
// for each such pair or for each sample. Labels become class probabilities for cross_entropy.
// Immutable.
//
//   auto mixup = std::make_shared<Mixup>(MixupOptions{.mixup_alpha = 0.8, .cutmix_alpha = 1,
//                                                     .num_classes = 101});
//   DataLoader loader(images, {.batch_size = 128, .shuffle = true, .batch_transform = mixup});

// The unit of one draw; the average shares are the same in all modes.
enum class MixupMode { batch, pair, elem };
// Returns the mode of timm's name; throws for another.
MixupMode mixup_mode(const std::string& name);

// The defaults are timm's.
struct MixupOptions {
  double mixup_alpha = 1;   // shares come from Beta(alpha, alpha); 0: no mixup
  double cutmix_alpha = 0;  // likewise for CutMix; 0: no CutMix
  // Side range of CutMix's rectangle, as fractions of the image's sides; replaces cutmix_alpha.
  std::optional<std::pair<double, double>> cutmix_minmax = {};
  MixupMode mode = MixupMode::batch;
  double prob = 1;           // probability that a batch (pair, sample) is mixed
  double switch_prob = 0.5;  // probability of CutMix instead of mixup, if both are enabled
  bool correct_lam = true;   // CutMix's share is recomputed from the clipped rectangle
  double label_smoothing = 0.1;
  int64_t num_classes = 1000;
  int64_t off_epoch = 0;  // from this epoch on labels are only smoothed; 0: always mix
};

class Mixup : public BatchTransform {
 public:
  // Throws for an option out of range, and if neither mixup nor CutMix is enabled.
  explicit Mixup(MixupOptions options = {});

  struct Mix {
    double lam = 1;               // the share of a sample's own label; 1: not mixed
    std::optional<Box> box = {};  // CutMix's rectangle; none: mixup
  };
  Mix draw(int width, int height, RandomStream& random) const;
  // Draws one mix for each of n samples, by the mode. In mode pair the middle sample of an odd
  // batch has no partner and is not mixed.
  std::vector<Mix> draw(int64_t n, int width, int height, RandomStream& random) const;
  // Mixes in-place: x becomes lam x + (1 - lam) reversed x, or x with the box copied from reversed
  // x. `image` is floating; a box needs (n, channels, height, width).
  static void mix(Tensor image, const Mix& mix);
  // The same with one mix per sample.
  static void mix(Tensor image, const std::vector<Mix>& mixes);
  // Returns probabilities (n, classes) f32 on the labels' device, for labels (n): lam for a
  // sample's own class, 1 - lam for its partner's, both smoothed. Throws for a label outside the
  // classes.
  Tensor targets(const Tensor& label, const std::vector<Mix>& mixes) const;
  // The same with one share for all.
  Tensor targets(const Tensor& label, double lam) const;

  Batch apply(Batch batch, uint64_t epoch, RandomStream& random) const override;

 private:
  Box moved_box(double lam, int width, int height, RandomStream& random) const;
  Mix cut(int width, int height, RandomStream& random) const;
  MixupOptions options_;
};

}  // namespace booster
