// mixup (Zhang et al., 2018) and CutMix (Yun et al., 2019) of a batch with itself in reverse order,
// as timm's Mixup: sample i is mixed with sample n - 1 - i. There is one draw for the batch, for
// each such pair or for each sample. Labels become class probabilities, which cross_entropy takes.
// Immutable.
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
    std::optional<Box> box = {};  // what CutMix takes from the partner; none: mixup
  };
  Mix draw(int width, int height, RandomStream& random) const;
  // Draws one mix for each of n samples, as the mode says. In mode pair the middle sample of an odd
  // batch has no partner and is not mixed.
  std::vector<Mix> draw(int64_t n, int width, int height, RandomStream& random) const;
  // In-place: x becomes lam x + (1 - lam) reversed x, or x with the box copied from reversed x.
  // `image` is floating; a box needs (n, channels, height, width).
  static void mix(Tensor image, const Mix& mix);
  // As above, with one mix per sample.
  static void mix(Tensor image, const std::vector<Mix>& mixes);
  // Returns probabilities (n, classes) f32 on the labels' device, for labels (n): lam for a
  // sample's own class, 1 - lam for its partner's, both smoothed. Throws for a label outside the
  // classes.
  Tensor targets(const Tensor& label, const std::vector<Mix>& mixes) const;
  // As above, with one share for all.
  Tensor targets(const Tensor& label, double lam) const;

  Batch apply(Batch batch, uint64_t epoch, RandomStream& random) const override;

 private:
  Box moved_box(double lam, int width, int height, RandomStream& random) const;
  Mix cut(int width, int height, RandomStream& random) const;
  MixupOptions options_;
};

}  // namespace booster
