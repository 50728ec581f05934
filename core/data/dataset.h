// Datasets: indexed samples, each an image (or any tensor) and a label.
//
// A Dataset is immutable once built; several threads call load() concurrently.
#pragma once

#include "core/data/dataset_identity.h"
#include "core/data/images/lazy_image.h"
#include "core/data/random_stream.h"
#include "core/tensor/tensor.h"

#include <string>
#include <variant>

namespace booster {

// An image may be lazy: the loader computes it when it needs it.
class Sample {
 public:
  // With a label that is a single i64.
  Sample(LazyImage image, int64_t label);
  Sample(Tensor image, int64_t label);
  Sample(Tensor image, Tensor label);

  Shape shape() const;  // (3, 224, 224)
  DType dtype() const;
  // Null if the image is already a tensor.
  const LazyImage* lazy() const { return std::get_if<LazyImage>(&image_); }
  // Writes the image to `to`, contiguous.
  void write(void* to) const;
  const Tensor& label() const { return label_; }
  // The name of the image's file, if it has one, for messages.
  std::string name() const;

 private:
  std::variant<LazyImage, Tensor> image_;
  Tensor label_;
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  // Returns sample `index` of 0 .. size() - 1, augmented with draws from `random` only. Throws an
  // error of kind data for a bad file.
  virtual Sample load(int64_t index, RandomStream& random) const = 0;
  // Kept in checkpoints, which resume only on data of the same identity.
  virtual DatasetIdentity identity() const { return {.samples = size()}; }
};

// Rows of CPU tensors: row i of `inputs` belongs to row i of `targets`.
class TensorDataset : public Dataset {
 public:
  TensorDataset(Tensor inputs, Tensor targets);
  int64_t size() const override { return inputs_.size(0); }
  Sample load(int64_t index, RandomStream& random) const override;
  // Given by shapes, dtypes and the first MiB of the targets.
  DatasetIdentity identity() const override;

 private:
  Tensor inputs_, targets_;
};

}  // namespace booster
