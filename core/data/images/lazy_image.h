// An image with pending changes.
//
// Transforms only record what to do. When the pixels are needed, the required region is traced back
// through all steps, and only that region is computed. A crop after a resize thus costs only what
// it keeps. The pixels are as if each step were computed in full. One object is for one thread;
// distinct objects may share a source.
#pragma once

#include "core/data/images/image.h"

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace booster {

struct ImagePlan;   // image_plan.h: the pending work as plain data
struct PixelView;   // resize.h
class StoredImage;  // stored_image.h: pixels that a GPU may hold

// Values that replace a part of an image: one per channel, or channels x height x width.
struct ErasedBox {
  Box box;
  std::vector<float> values;
};

class LazyImage {
 public:
  // `name` is for messages.
  LazyImage(std::shared_ptr<const Image> source, std::string name);
  // `pixels` are the image's if they are already on the host, else null.
  LazyImage(std::shared_ptr<const StoredImage> stored, std::shared_ptr<const Image> pixels,
            std::string name);

  int width() const { return window_.width; }
  int height() const { return window_.height; }
  int channels() const { return rgb_ ? 3 : source_channels_; }
  const std::string& name() const { return name_; }

  // Throws an error of kind data, naming the image, if the result exceeds image_limits::pixels.
  void resize(int width, int height, Interpolation interpolation);
  // `box` must be within the image.
  void crop(const Box& box);
  // Adds black pixels at each side.
  void pad(int left, int top, int right, int bottom);
  void flip_horizontal();
  // Grey becomes three equal channels.
  void repeat_grey();
  // Makes values floats, byte / 255, from here on.
  void to_tensor();
  // value -> (value - mean) / std in f32; one mean and std per channel, or one for all.
  void normalize(const std::vector<double>& mean, const std::vector<double>& std);

  // Replaces the tensor's values in `box`, which must be within the image: one value per channel,
  // or channels x height x width of the box. No change of geometry may follow; normalize() also
  // applies to these values.
  void erase(const Box& box, std::vector<float> values);
  // Computes the pixels now and continues with the result of `change`.
  void change_pixels(const std::function<Image(Image pixels)>& change);

  // Returns the pixels, whether or not to_tensor was called.
  Image pixels() const;
  // Writes channels() x height() x width() floats in that order; requires to_tensor.
  void write(float* out) const;
  // Returns the same work as a plan, computing only the weights; requires to_tensor.
  ImagePlan plan() const;

 private:
  struct Stage {
    Box crop;  // of the previous stage's result
    int width, height;
    Interpolation interpolation;
  };
  struct Workshop;

  const Image& source() const;
  void settle();
  void check_not_erased(const char* what) const;
  void write_erased(float* out) const;
  static Workshop& workshop();
  PixelView shown(Workshop& workshop) const;
  PixelView region(size_t stages, const Box& need, Workshop& workshop) const;
  void plan_region(size_t stages, const Box& need, ImagePlan& plan) const;
  void check_is_tensor() const;

  std::shared_ptr<const StoredImage> stored_;    // null if the source was changed
  mutable std::shared_ptr<const Image> source_;  // null: not needed on the host yet
  int source_width_, source_channels_;
  std::string name_;
  std::vector<Stage> stages_;
  Box window_;  // visible part of the last stage
  bool flipped_ = false, rgb_ = false, is_tensor_ = false;
  std::array<std::array<float, 256>, 3> values_;  // of each byte, per channel; valid once a tensor
  std::vector<ErasedBox> erased_;
};

}  // namespace booster
