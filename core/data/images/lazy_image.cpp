#include "core/data/images/image.h"
#include "core/data/images/image_limits.h"

#include "core/data/images/image_plan.h"
#include "core/data/images/resize.h"
#include "core/data/images/stored_image.h"
#include "platform/error.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace booster {

LazyImage::LazyImage(std::shared_ptr<const Image> source, std::string name)
    : source_(std::move(source)),
      source_width_(source_->width()),
      source_channels_(source_->channels()),
      name_(std::move(name)),
      window_{0, 0, source_->width(), source_->height()} {}

LazyImage::LazyImage(std::shared_ptr<const StoredImage> stored, std::shared_ptr<const Image> pixels,
                     std::string name)
    : stored_(std::move(stored)),
      source_(std::move(pixels)),
      source_width_(stored_->width()),
      source_channels_(stored_->channels()),
      name_(std::move(name)),
      window_{0, 0, stored_->width(), stored_->height()} {}

const Image& LazyImage::source() const {
  if (!source_) source_ = stored_->pixels();
  return *source_;
}

void LazyImage::resize(int width, int height, Interpolation interpolation) {
  check(!is_tensor_, "Resize: '{}' is already a tensor; want Resize before ToTensor", name_);
  if (int64_t{width} * height > image_limits::pixels)
    bad_image(name_, fmt::format("too many pixels after Resize; got {} x {}, want at most {} "
                                 "megapixels",
                                 width, height, image_limits::pixels >> 20));
  if (flipped_) settle();
  stages_.push_back({window_, width, height, interpolation});
  window_ = {0, 0, width, height};
}

void LazyImage::crop(const Box& box) {
  check_not_erased("crop");
  const int left = flipped_ ? window_.width - box.left - box.width : box.left;
  window_ = {window_.left + left, window_.top + box.top, box.width, box.height};
}

void LazyImage::pad(int left, int top, int right, int bottom) {
  check(!is_tensor_, "pad: '{}' is already a tensor; want pad before ToTensor", name_);
  const Image inner = pixels();
  auto padded = std::make_shared<Image>(inner.width() + left + right, inner.height() + top + bottom,
                                        inner.channels());
  std::memset(padded->data(), 0, padded->bytes());
  for (int y = 0; y < inner.height(); ++y)
    std::memcpy(padded->row(top + y) + left * inner.channels(), inner.row(y), inner.row_bytes());
  *this = LazyImage(std::move(padded), std::move(name_));
}

void LazyImage::flip_horizontal() {
  check_not_erased("flip");
  flipped_ = !flipped_;
}

void LazyImage::repeat_grey() {
  check_not_erased("Gray2RGB");
  rgb_ = true;
}

void LazyImage::check_not_erased(const char* what) const {
  check(erased_.empty(), "{0}: parts of '{1}' are already erased; want {0} before RandomErasing",
        what, name_);
}

void LazyImage::change_pixels(const std::function<Image(Image pixels)>& change) {
  check(!is_tensor_, "transform: '{}' is already a tensor; want the transform before ToTensor",
        name_);
  *this = LazyImage(std::make_shared<Image>(change(pixels())), std::move(name_));
}

void LazyImage::erase(const Box& box, std::vector<float> values) {
  check(is_tensor_, "erase: '{}' is not yet a tensor; want ToTensor before it", name_);
  const bool within = box.left >= 0 && box.top >= 0 && box.width > 0 && box.height > 0 &&
                      box.left + box.width <= width() && box.top + box.height <= height();
  check(within, "erase: box is not within '{}'; got {} x {} at ({}, {}), want within {} x {}",
        name_, box.width, box.height, box.left, box.top, width(), height());
  const auto each = static_cast<size_t>(channels());
  const size_t whole = each * static_cast<size_t>(box.width) * static_cast<size_t>(box.height);
  check(values.size() == each || values.size() == whole,
        "erase: wrong number of values for the box; got {}, want {} or {}", values.size(), each,
        whole);
  erased_.push_back({box, std::move(values)});
}

void LazyImage::to_tensor() {
  check(!is_tensor_, "ToTensor: '{}' is already a tensor; want ToTensor once", name_);
  is_tensor_ = true;
  for (int byte = 0; byte < 256; ++byte)
    for (auto& values : values_) values[byte] = static_cast<float>(byte) / 255.0f;
}

void LazyImage::normalize(const std::vector<double>& mean, const std::vector<double>& std) {
  check(is_tensor_, "Normalize: '{}' is not yet a tensor; want ToTensor before it", name_);
  check(mean.size() == 1 || static_cast<int>(mean.size()) == channels(),
        "Normalize: '{}' has a different number of channels; got {} means for {} channels, want "
        "Gray2RGB before it",
        name_, mean.size(), channels());
  for (size_t c = 0; c < values_.size(); ++c) {
    const auto m = static_cast<float>(mean[c < mean.size() ? c : 0]);
    const auto s = static_cast<float>(std[c < std.size() ? c : 0]);
    for (float& value : values_[c]) value = (value - m) / s;
    for (auto& [box, values] : erased_) {
      const size_t each = values.size() / static_cast<size_t>(channels());
      for (size_t i = 0; static_cast<int>(c) < channels() && i < each; ++i)
        values[c * each + i] = (values[c * each + i] - m) / s;
    }
  }
}

// A thread's working memory, kept so that the steady state allocates nothing.
struct LazyImage::Workshop {
  struct Step {
    Taps x, y;
    Image out;
  };
  std::vector<Step> steps;
  Image between;
};

LazyImage::Workshop& LazyImage::workshop() {
  thread_local Workshop workshop;
  return workshop;
}

PixelView LazyImage::shown(Workshop& workshop) const {
  if (workshop.steps.size() < stages_.size()) workshop.steps.resize(stages_.size());
  return region(stages_.size(), window_, workshop);
}

// Returns the pixels `need` of the result of the first `stages` stages.
PixelView LazyImage::region(size_t stages, const Box& need, Workshop& workshop) const {
  if (stages == 0)
    return {source().row(need.top) + need.left * ptrdiff_t{source().channels()},
            source().row_bytes(), source().channels(), need.left, need.top};
  const Stage& stage = stages_[stages - 1];
  auto& [x, y, out] = workshop.steps[stages - 1];
  x.compute(stage.crop.width, stage.width, stage.interpolation, need.left, need.left + need.width);
  y.compute(stage.crop.height, stage.height, stage.interpolation, need.top, need.top + need.height);
  PixelView in = region(stages - 1,
                        {stage.crop.left + x.input_begin(), stage.crop.top + y.input_begin(),
                         x.input_end() - x.input_begin(), y.input_end() - y.input_begin()},
                        workshop);
  in.left -= stage.crop.left;
  in.top -= stage.crop.top;
  resample(in, x, y, workshop.between, out);
  return {out.data(), out.row_bytes(), out.channels(), need.left, need.top};
}

namespace {

// Adds the passes of one resize, in resample()'s order.
void add_passes(const Taps& x, const Taps& y, ImagePlan& plan) {
  const auto add = [&](bool vertical, const Taps& taps, int rows, int columns) {
    if (taps.identity()) return;
    const auto n = static_cast<size_t>(taps.outputs());
    ImagePlan::Pass& pass = plan.passes.emplace_back();
    pass = {vertical, rows, columns, taps.count(), {taps.first(), taps.first() + n}, {}};
    for (int32_t& first : pass.first) first -= taps.input_begin();
    pass.weights.assign(taps.weights(0), taps.weights(0) + n * static_cast<size_t>(pass.count));
  };
  if (vertical_first(x, y)) {
    add(true, y, y.outputs(), x.input_end() - x.input_begin());
    add(false, x, y.outputs(), x.outputs());
  } else {
    add(false, x, y.input_end() - y.input_begin(), x.outputs());
    add(true, y, y.outputs(), x.outputs());
  }
}

void copy_row(const uint8_t* from, uint8_t* to, int width, int from_channels, int to_channels,
              bool flipped) {
  for (int x = 0; x < width; ++x)
    for (int c = 0; c < to_channels; ++c)
      to[x * to_channels + c] =
          from[(flipped ? width - 1 - x : x) * from_channels + (from_channels == 1 ? 0 : c)];
}

using Values = std::array<std::array<float, 256>, 3>;

// Writes a row of pixels. `step` is 3 or -3; planes are `area` floats apart.
void write_rgb_row(const uint8_t* from, int step, int width, const Values& values, float* out,
                   size_t area) {
  for (int x = 0; x < width; ++x, from += step) {
    out[x] = values[0][from[0]];
    out[area + x] = values[1][from[1]];
    out[2 * area + x] = values[2][from[2]];
  }
}

void write_grey_row(const uint8_t* from, int step, int width, const std::array<float, 256>& values,
                    float* out) {
  for (int x = 0; x < width; ++x, from += step) out[x] = values[*from];
}

}  // namespace

Image LazyImage::pixels() const {
  const PixelView view = shown(workshop());
  Image out(width(), height(), channels());
  for (int y = 0; y < height(); ++y)
    copy_row(view.data + y * view.row_bytes, out.row(y), width(), view.channels, channels(),
             flipped_);
  return out;
}

// Applies all pending changes of geometry.
void LazyImage::settle() {
  source_ = std::make_shared<Image>(pixels());
  source_width_ = source_->width();
  source_channels_ = source_->channels();
  stored_.reset();
  stages_.clear();
  window_ = {0, 0, source_->width(), source_->height()};
  flipped_ = false;
}

// Plans the computation of region().
void LazyImage::plan_region(size_t stages, const Box& need, ImagePlan& plan) const {
  if (stages == 0) {
    plan.part = need;
    return;
  }
  const Stage& stage = stages_[stages - 1];
  Taps x, y;
  x.compute(stage.crop.width, stage.width, stage.interpolation, need.left, need.left + need.width);
  y.compute(stage.crop.height, stage.height, stage.interpolation, need.top, need.top + need.height);
  plan_region(stages - 1,
              {stage.crop.left + x.input_begin(), stage.crop.top + y.input_begin(),
               x.input_end() - x.input_begin(), y.input_end() - y.input_begin()},
              plan);
  add_passes(x, y, plan);
}

ImagePlan LazyImage::plan() const {
  check_is_tensor();
  ImagePlan plan = {.stored = stored_,
                    .pixels = source_,
                    .source_width = source_width_,
                    .source_channels = source_channels_,
                    .part = {},
                    .passes = {},
                    .is_flipped = flipped_,
                    .channels = channels(),
                    .values = values_,
                    .erased = erased_};
  plan_region(stages_.size(), window_, plan);
  return plan;
}

void LazyImage::write_erased(float* out) const {
  for (const auto& [box, values] : erased_) {
    const bool is_flat = static_cast<int>(values.size()) == channels();
    const float* value = values.data();
    for (int c = 0; c < channels(); ++c)
      for (int y = box.top; y < box.top + box.height; ++y) {
        float* row = out + (size_t(c) * height() + y) * width() + box.left;
        if (is_flat) std::fill_n(row, box.width, values[static_cast<size_t>(c)]);
        else std::copy_n(std::exchange(value, value + box.width), box.width, row);
      }
  }
}

void LazyImage::check_is_tensor() const {
  check(is_tensor_, "dataset: '{}' is not yet a tensor; want ToTensor in its transform", name_);
}

void LazyImage::write(float* out) const {
  check_is_tensor();
  const PixelView view = shown(workshop());
  float* const begin = out;
  const size_t area = size_t(width()) * height();
  const int step = flipped_ ? -view.channels : view.channels;
  for (int y = 0; y < height(); ++y, out += width()) {
    const uint8_t* row = view.data + y * view.row_bytes;
    const uint8_t* from = flipped_ ? row + (width() - 1) * ptrdiff_t{view.channels} : row;
    if (view.channels == 3) {
      write_rgb_row(from, step, width(), values_, out, area);
    } else {
      for (int c = 0; c < channels(); ++c)
        write_grey_row(from, step, width(), values_[c], out + c * area);
    }
  }
  write_erased(begin);
}

}  // namespace booster
