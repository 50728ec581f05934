// Data sets of many small images of one size, held in memory as bytes. Immutable values that share
// their images; copies are cheap.
#pragma once

#include "core/data/dataset.h"
#include "core/data/transforms/transforms.h"

#include <memory>
#include <string>
#include <vector>

namespace booster {

struct PackedContents {
  std::string kind;  // "CIFAR-10"
  int width = 0, height = 0, channels = 0;
  std::vector<uint8_t> pixels = {};  // image by image, rows of interleaved pixels
  std::vector<uint8_t> labels = {};
  std::vector<std::string> classes = {};
};

class PackedImages : public Dataset {
 public:
  // Throws an error of kind data, naming the kind, for a label outside the classes.
  PackedImages(PackedContents contents, Compose transform);
  int64_t size() const override;
  Sample load(int64_t index, RandomStream& random) const override;
  // Given by the labels in their order.
  DatasetIdentity identity() const override;

  const std::vector<std::string>& classes() const;
  int64_t label(int64_t index) const;
  // Returns the same images with another transform.
  PackedImages with_transform(Compose transform) const;

 private:
  std::shared_ptr<const PackedContents> contents_;
  Compose transform_;
};

}  // namespace booster
