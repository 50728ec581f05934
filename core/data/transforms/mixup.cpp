#include "core/data/transforms/transforms.h"

#include "platform/error.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace booster {
namespace {

void check_share(const char* name, double value) {
  check(value >= 0 && value <= 1, "Mixup: {} out of range; got {}, want 0 to 1", name, value);
}

// Returns a dense copy, last sample first.
Tensor reversed(const Tensor& x) {
  const Tensor y = empty(x.shape(), {x.dtype(), x.device()});
  const int64_t n = x.size(0);
  for (int64_t i = 0; i < n; ++i)
    untracked::narrow(y, 0, i, 1).copy_(untracked::narrow(x, 0, n - 1 - i, 1));
  return y;
}

// Returns the part of the images that a mix changes.
Tensor part_of(const Tensor& image, const Mixup::Mix& mix) {
  if (!mix.box) return image;
  check(image.ndim() == 4,
        "Mixup: wrong shape for CutMix; got {}, want images (n, channels, height, width)",
        image.shape());
  return untracked::narrow(untracked::narrow(image, 2, mix.box->top, mix.box->height), 3,
                           mix.box->left, mix.box->width);
}

bool changes_nothing(const Mixup::Mix& mix) {
  return mix.box ? mix.box->width == 0 || mix.box->height == 0 : mix.lam == 1;
}

// Mixes `part` with the partners' values at the same place.
void blend(Tensor part, const Tensor& partners, const Mixup::Mix& mix) {
  if (mix.box)
    part.copy_(partners);
  else
    part.mul_(mix.lam).add_(partners, 1 - mix.lam);
}

// Draws, for one side, a range of this length around a random centre; clips it to the side.
std::pair<int, int> clipped_part(int side, int length, RandomStream& random) {
  const int centre = static_cast<int>(random.below(side));
  return {std::clamp(centre - length / 2, 0, side), std::clamp(centre + (length + 1) / 2, 0, side)};
}

// Draws a range of random length and place for one side.
std::pair<int, int> whole_part(int side, std::pair<double, double> minmax, RandomStream& random) {
  const int low = static_cast<int>(side * minmax.first);
  const int high = static_cast<int>(side * minmax.second);
  const int length = low + static_cast<int>(random.below(std::max(high - low, 1)));
  const int begin = static_cast<int>(random.below(side - length + 1));
  return {begin, begin + length};
}

}  // namespace

MixupMode mixup_mode(const std::string& name) {
  if (name == "batch") return MixupMode::batch;
  if (name == "pair") return MixupMode::pair;
  if (name == "elem") return MixupMode::elem;
  fail("Mixup: unknown mode; got '{}'{}", name, legal_names(name, {"batch", "pair", "elem"}));
}

Mixup::Mixup(MixupOptions options) : options_(options) {
  check(options.mixup_alpha >= 0 && options.cutmix_alpha >= 0,
        "Mixup: alpha out of range; got {} and {} for CutMix, want 0 or more", options.mixup_alpha,
        options.cutmix_alpha);
  check(options.mixup_alpha > 0 || options.cutmix_alpha > 0 || options.cutmix_minmax,
        "Mixup: mixup and CutMix are both off; got mixup_alpha 0 and cutmix_alpha 0, want one of "
        "them above 0");
  if (const auto& minmax = options.cutmix_minmax)
    check(minmax->first >= 0 && minmax->first < minmax->second && minmax->second <= 1,
          "Mixup: cutmix_minmax out of range; got {} and {}, want 0 <= min < max <= 1",
          minmax->first, minmax->second);
  check_share("prob", options.prob);
  check_share("switch_prob", options.switch_prob);
  check_share("label_smoothing", options.label_smoothing);
  check(options.num_classes >= 1, "Mixup: num_classes out of range; got {}, want 1 or more",
        options.num_classes);
  check(options.off_epoch >= 0, "Mixup: off_epoch out of range; got {}, want 0 or more",
        options.off_epoch);
}

Box Mixup::moved_box(double lam, int width, int height, RandomStream& random) const {
  const auto sides = [&](int side) {
    if (options_.cutmix_minmax) return whole_part(side, *options_.cutmix_minmax, random);
    return clipped_part(side, static_cast<int>(side * std::sqrt(1 - lam)), random);
  };
  const auto [top, bottom] = sides(height);
  const auto [left, right] = sides(width);
  return {left, top, right - left, bottom - top};
}

// Draws a rectangle. With cutmix_minmax only the rectangle determines the share.
Mixup::Mix Mixup::cut(int width, int height, RandomStream& random) const {
  const double alpha = options_.cutmix_minmax ? 1 : options_.cutmix_alpha;
  Mix mix{.lam = random.beta(alpha, alpha)};
  mix.box = moved_box(mix.lam, width, height, random);
  if (options_.correct_lam || options_.cutmix_minmax)
    mix.lam = 1 - double{1} * mix.box->width * mix.box->height / (double{1} * width * height);
  return mix;
}

Mixup::Mix Mixup::draw(int width, int height, RandomStream& random) const {
  if (random.uniform() >= options_.prob) return {};
  const bool cuts = options_.cutmix_alpha > 0 || options_.cutmix_minmax;
  const bool mixes = options_.mixup_alpha > 0;
  if (cuts && (!mixes || random.uniform() < options_.switch_prob))
    return cut(width, height, random);
  return {.lam = random.beta(options_.mixup_alpha, options_.mixup_alpha)};
}

std::vector<Mixup::Mix> Mixup::draw(int64_t n, int width, int height, RandomStream& random) const {
  const auto count = static_cast<size_t>(n);
  if (options_.mode == MixupMode::batch) return std::vector(count, draw(width, height, random));
  std::vector<Mix> mixes(count);
  const bool pairs = options_.mode == MixupMode::pair;
  for (size_t i = 0; i < (pairs ? count / 2 : count); ++i) {
    mixes[i] = draw(width, height, random);
    if (pairs) mixes[count - 1 - i] = mixes[i];
  }
  return mixes;
}

void Mixup::mix(Tensor image, const Mix& mix) {
  check(image.ndim() > 0, "Mixup: want a batch (n, ...); got a tensor without dimensions");
  if (changes_nothing(mix)) return;
  const Tensor part = part_of(image, mix);
  blend(part, reversed(part), mix);
}

void Mixup::mix(Tensor image, const std::vector<Mix>& mixes) {
  const auto n = static_cast<int64_t>(mixes.size());
  check(image.ndim() > 0 && image.size(0) == n,
        "Mixup: wrong number of mixes; got {} for {} samples", n, image.shape());
  const Tensor partners = reversed(image);
  for (int64_t i = 0; i < n; ++i) {
    const Mix& mix = mixes[static_cast<size_t>(i)];
    if (changes_nothing(mix)) continue;
    const auto part = [&](const Tensor& x) { return part_of(untracked::narrow(x, 0, i, 1), mix); };
    blend(part(image), part(partners), mix);
  }
}

Tensor Mixup::targets(const Tensor& label, const std::vector<Mix>& mixes) const {
  check(label.ndim() == 1 && !is_floating(label.dtype()),
        "Mixup: wrong labels; got {} {}, want class numbers (n,)", name_of(label.dtype()),
        label.shape());
  check(label.size(0) == static_cast<int64_t>(mixes.size()),
        "Mixup: wrong number of mixes; got {} for {} labels", mixes.size(), label.shape());
  const std::vector<int64_t> classes = label.to_vector<int64_t>();
  const int64_t count = options_.num_classes;
  // Computed in f32 and in timm's order.
  const auto off = static_cast<float>(options_.label_smoothing / static_cast<double>(count));
  const auto on = static_cast<float>(1 - options_.label_smoothing +
                                     options_.label_smoothing / static_cast<double>(count));
  const size_t n = classes.size();
  std::vector<float> values(n * static_cast<size_t>(count));
  for (size_t row = 0; row < n; ++row) {
    const double lam = mixes[row].lam;
    const auto own = static_cast<float>(lam), others = static_cast<float>(1 - lam);
    const int64_t mine = classes[row], other = classes[n - 1 - row];
    check(mine >= 0 && mine < count, "Mixup: label is not a class; got {} in row {}, want 0 to {}",
          mine, row, count - 1);
    if (other < 0 || other >= count) continue;  // reported in its own row
    float* value = &values[row * static_cast<size_t>(count)];
    std::fill_n(value, count, off * own + off * others);
    value[mine] = on * own + off * others;
    value[other] = (mine == other ? on : off) * own + on * others;
  }
  return from_vector(values, {label.size(0), count}).to(label.device());
}

Tensor Mixup::targets(const Tensor& label, double lam) const {
  const auto n = static_cast<size_t>(label.ndim() > 0 ? label.size(0) : 0);
  return targets(label, std::vector(n, Mix{.lam = lam}));
}

Batch Mixup::apply(Batch batch, uint64_t epoch, RandomStream& random) const {
  if (!batch.image.defined())
    fail(
        "Mixup: mixes images and their labels; got a batch of named tensors ({}), want samples "
        "without names",
        batch.inputs().names());
  const Shape& shape = batch.image.shape();
  const bool is_image = shape.ndim() == 4;
  const bool is_off =
      options_.off_epoch > 0 && epoch >= static_cast<uint64_t>(options_.off_epoch);
  std::vector<Mix> mixes(static_cast<size_t>(shape[0]));
  if (!is_off)
    mixes = draw(shape[0], is_image ? static_cast<int>(shape[3]) : 1,
                 is_image ? static_cast<int>(shape[2]) : 1, random);
  if (options_.mode != MixupMode::batch)
    mix(batch.image, mixes);
  else if (!mixes.empty())
    mix(batch.image, mixes[0]);
  return {batch.image, targets(batch.label, mixes)};
}

}  // namespace booster
