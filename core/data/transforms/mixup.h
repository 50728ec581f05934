// mixup (Zhang et al., 2018) and CutMix (Yun et al., 2019) of a batch with itself in reverse order,
// as timm's Mixup does it: sample i is mixed with sample n - 1 - i, by one draw for the batch, for
// each such pair or for each sample. Labels become probabilities of the classes, which
// cross_entropy takes. Immutable.
//
//   auto mixup = std::make_shared<Mixup>(MixupOptions{.mixup_alpha = 0.8, .cutmix_alpha = 1,
//                                                     .num_classes = 101});
//   DataLoader loader(images, {.batch_size = 128, .shuffle = true, .batch_transform = mixup});
#pragma once

#include "core/data/batch.h"
#include "core/data/images/resize.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace booster {

// How many draws decide about a batch; the same shares are mixed on average.
enum class MixupMode { batch, pair, elem };
// By timm's name; error for another.
MixupMode mixup_mode(const std::string& name);

// The defaults are timm's.
struct MixupOptions {
  double mixup_alpha = 1;   // shares come from Beta(alpha, alpha); 0: no mixup
  double cutmix_alpha = 0;  // the same of CutMix; 0: none
  // Sides of the rectangle that CutMix moves, as parts of the image's, instead of cutmix_alpha.
  std::optional<std::pair<double, double>> cutmix_minmax = {};
  MixupMode mode = MixupMode::batch;
  double prob = 1;           // that a batch (a pair, a sample) is mixed
  double switch_prob = 0.5;  // that it is by CutMix, if both are there
  bool correct_lam = true;   // CutMix's share is what the clipped rectangle leaves
  double label_smoothing = 0.1;
  int64_t num_classes = 1000;
  int64_t off_epoch = 0;  // from this epoch on nothing is mixed, only smoothed; 0: always mixed
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
  // One for each of n samples, as the mode says. In mode pair the middle one of an odd batch, which
  // has no partner, is not mixed.
  std::vector<Mix> draw(int64_t n, int width, int height, RandomStream& random) const;
  // In place: x lam + (1 - lam) x reversed, or x with the rectangle of x reversed. `image` is
  // floating; a rectangle wants (n, channels, height, width).
  static void mix(Tensor image, const Mix& mix);
  // The same with a mix for each sample.
  static void mix(Tensor image, const std::vector<Mix>& mixes);
  // (n, classes) f32 on the labels' device, of labels (n): lam of the own class, 1 - lam of the
  // other's, both smoothed. Error for a label that is no class.
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
