// mixup (Zhang et al., 2018) and CutMix (Yun et al., 2019) of a batch with itself in reverse order,
// as timm's Mixup does it in mode "batch": sample i is mixed with sample n - 1 - i, all with the
// same share. Labels become probabilities of the classes, which cross_entropy takes. Immutable.
//
//   auto mixup = std::make_shared<Mixup>(MixupOptions{.mixup_alpha = 0.8, .cutmix_alpha = 1,
//                                                     .num_classes = 101});
//   DataLoader loader(images, {.batch_size = 128, .shuffle = true, .batch_transform = mixup});
#pragma once

#include "core/data/batch.h"
#include "core/data/images/resize.h"

#include <optional>
#include <utility>

namespace booster {

// The defaults are timm's.
struct MixupOptions {
  double mixup_alpha = 1;   // shares come from Beta(alpha, alpha); 0: no mixup
  double cutmix_alpha = 0;  // the same of CutMix; 0: none
  // Sides of the rectangle that CutMix moves, as parts of the image's, instead of cutmix_alpha.
  std::optional<std::pair<double, double>> cutmix_minmax = {};
  double prob = 1;           // that a batch is mixed
  double switch_prob = 0.5;  // that it is by CutMix, if both are there
  bool correct_lam = true;   // CutMix's share is what the clipped rectangle leaves
  double label_smoothing = 0.1;
  int64_t num_classes = 1000;
};

class Mixup : public BatchTransform {
 public:
  // Error for an option out of range, and for neither mixup nor CutMix.
  explicit Mixup(MixupOptions options = {});

  struct Mix {
    double lam = 1;               // the share of a sample's own label; 1: nothing is mixed
    std::optional<Box> box = {};  // what CutMix takes from the other; none: mixup
  };
  Mix draw(int width, int height, RandomStream& random) const;
  // In place: x lam + (1 - lam) x reversed, or x with the rectangle of x reversed. `image` is
  // floating; a rectangle wants (n, channels, height, width).
  static void mix(Tensor image, const Mix& mix);
  // (n, classes) f32 on the labels' device, of labels (n): lam of the own class, 1 - lam of the
  // other's, both smoothed. Error for a label that is no class.
  Tensor targets(const Tensor& label, double lam) const;

  Batch apply(Batch batch, RandomStream& random) const override;

 private:
  Box moved_box(double lam, int width, int height, RandomStream& random) const;
  Mix cut(int width, int height, RandomStream& random) const;
  MixupOptions options_;
};

}  // namespace booster
