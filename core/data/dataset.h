// Datasets: indexed samples, each an image (or any tensor) and a label, or named tensors. Streams
// of samples. Also a data set's random numbers and identity, and the batches that a loader makes.
//
// A Dataset is immutable once built; several threads call load() concurrently.
#pragma once

#include "core/data/images/image.h"
#include "core/tensor/tensors.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>

namespace booster {

// --- The random numbers of one sample in one epoch: a Philox stream keyed by seed, epoch and
// sample index. Augmentation thus does not depend on workers or order. One stream is for one
// thread.

class RandomStream {
 public:
  RandomStream(uint64_t seed, uint64_t epoch, uint64_t index);

  uint32_t bits();
  // Draws uniformly from [low, high).
  double uniform(double low = 0, double high = 1);
  // Draws a uniform integer of 0 .. n - 1; n is from 1 to 2^32.
  int64_t below(int64_t n);
  // Draws from the normal distribution with mean 0 and variance 1, by Box and Muller.
  double normal();
  // Draws from Beta(a, b), which is in [0, 1]. a and b are above 0 and may be tiny.
  double beta(double a, double b);

 private:
  double log_gamma(double shape);
  uint64_t key_;
  uint64_t block_ = 0;
  int used_ = 4;
  uint32_t words_[4] = {};
};

// --- Distinguishes data sets without reading their samples, so that a resumed training detects
// other data. Values; thread-safe.

struct DatasetIdentity {
  std::string kind = "data set";
  int64_t samples = 0;
  int64_t classes = 0;       // 0: none
  uint64_t fingerprint = 0;  // of names and labels in their order; 0: unknown
  friend bool operator==(const DatasetIdentity&, const DatasetIdentity&) = default;
};

// A hash (FNV-1a, 64 bits) of the added values in their order; the same on every machine.
class Fingerprint {
 public:
  void add(std::string_view bytes);
  void add(int64_t number);
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

// --- data sets

// An image may be lazy: the loader computes it when it needs it.
class Sample {
 public:
  // Makes a sample with a single i64 as label.
  Sample(LazyImage image, int64_t label);
  Sample(Tensor image, int64_t label);
  Sample(Tensor image, Tensor label);
  // Makes a sample of several tensors. A loader stacks those of one name, and gives batches with
  // these names.
  //   return Sample::named({{"source", s}, {"target", t}}, {{"labels", labels}});
  static Sample named(Tensors inputs, Tensors targets);

  bool is_named() const { return !named_inputs_.empty(); }
  // Return what a model and a loss take: the named tensors, or the image (computed if it is lazy)
  // and the label, without names.
  Tensors inputs() const;
  Tensors targets() const;

  // --- of a sample without names
  Shape shape() const;  // (3, 224, 224)
  DType dtype() const;
  // Returns the lazy image; null if the image is already a tensor.
  const LazyImage* lazy() const { return std::get_if<LazyImage>(&image_); }
  // Writes the image to `to`, contiguous.
  void write(void* to) const;
  const Tensor& label() const { return label_; }
  // Returns the name of the image's file for messages; "" if there is none.
  std::string name() const;

 private:
  Sample() = default;
  std::variant<Tensor, LazyImage> image_;
  Tensor label_;
  Tensors named_inputs_, named_targets_;
};

class Dataset {
 public:
  virtual ~Dataset() = default;
  virtual int64_t size() const = 0;
  // Returns sample `index` of 0 .. size() - 1, augmented with draws from `random` only. Throws an
  // error of kind data for a bad file.
  virtual Sample load(int64_t index, RandomStream& random) const = 0;
  // Returns sample `index` as a part of the batch of samples `batch`. A data set whose samples
  // differ in length pads it to the longest of them. Errors as above.
  virtual Sample load_in_batch(int64_t index, std::span<const int64_t> /*batch*/,
                               RandomStream& random) const {
    return load(index, random);
  }
  // Returns the identity that checkpoints keep. They resume only on data of the same identity.
  virtual DatasetIdentity identity() const { return {.samples = size()}; }
};

// Rows of CPU tensors: row i of `inputs` belongs to row i of `targets`.
class TensorDataset : public Dataset {
 public:
  TensorDataset(Tensor inputs, Tensor targets);
  int64_t size() const override { return inputs_.size(0); }
  Sample load(int64_t index, RandomStream& random) const override;
  // Derives the identity from shapes, dtypes and the first MiB of the targets.
  DatasetIdentity identity() const override;

 private:
  Tensor inputs_, targets_;
};

// --- Streams: samples that are read in order, and whose number is unknown before the end.

// Makes a sample, augmented with draws from `random` only. Workers call it, several at once.
using MakeSample = std::function<Sample(RandomStream& random)>;

// Reads a shard of a stream. For one thread at a time.
class StreamReader {
 public:
  virtual ~StreamReader() = default;
  // Reads the next sample's record and returns what makes the sample of it; null at the shard's
  // end. One thread reads all records of a rank, so costly work belongs in the returned function.
  virtual MakeSample next() = 0;
  // Returns the length of the record that next() read last: for DataLoaderOptions::by_length.
  virtual int64_t length() const { return 0; }
  // Returns the position between two records, as UTF-8. Later, load_state() moves a new reader of
  // the same shard and epoch there. "": none; a resumed loader reads the shard from its start and
  // drops the earlier records.
  virtual std::string state() const { return {}; }
  virtual void load_state(const std::string& /*state*/) {}
};

class StreamDataset : public Dataset {
 public:
  // Returns the number of parts that can be read independently, a constant. If it is a multiple of
  // the number of ranks, ranks divide the shards. Otherwise each rank reads all shards and keeps
  // every world_size-th record.
  virtual int64_t shards() const { return 1; }
  // Opens a shard at its start. Throws an error of kind data for a bad file.
  virtual std::unique_ptr<StreamReader> open(int64_t shard, uint64_t epoch) const = 0;
  DatasetIdentity identity() const override { return {.kind = "stream"}; }
  int64_t size() const final;                             // throws: a stream has no length
  Sample load(int64_t index, RandomStream&) const final;  // throws: it has no index
};

// Returns a stream of what functions give. open(shard, epoch) returns a function that gives the
// shard's next sample, and nothing at the end. A resumed loader begins the shard again.
std::shared_ptr<const StreamDataset> stream_of(
    std::function<std::function<std::optional<Sample>()>(int64_t shard, uint64_t epoch)> open,
    int64_t shards = 1);

// --- Batches, and transforms of whole batches as they leave a loader.

// Binds as a pair: `auto& [image, label] = batch`.
struct Batch {
  Tensor image;  // (n, ...) in the samples' dtype; images are f32 (n, channels, height, width)
  Tensor label;  // (n) i64, or (n, ...) as the dataset's targets
  // Of samples with named tensors, whose batches have no image and label.
  Tensors named_inputs = {}, named_targets = {};

  // Return what a model and a loss take: the named tensors, or image and label without names.
  Tensors inputs() const { return named_inputs.empty() ? Tensors(image) : named_inputs; }
  Tensors targets() const { return named_inputs.empty() ? Tensors(label) : named_targets; }
  // Returns the named input or target. Throws with the names that exist.
  Tensor operator[](std::string_view name) const {
    return named_targets.contains(name) ? named_targets[name] : named_inputs[name];
  }

  template <size_t i>
  Tensor& get() & {
    return i == 0 ? image : label;
  }
  template <size_t i>
  const Tensor& get() const& {
    return i == 0 ? image : label;
  }
  template <size_t i>
  Tensor&& get() && {
    return std::move(get<i>());
  }
};

// Transforms are immutable values, like transforms of single images.
class BatchTransform {
 public:
  virtual ~BatchTransform() = default;
  // Runs on the batch's device and may change the batch's tensors in place. `epoch` counts from 0.
  // `random` is the batch's own stream, which depends on the seed, the epoch, the batch's number
  // and, with several ranks, the rank.
  virtual Batch apply(Batch batch, uint64_t epoch, RandomStream& random) const = 0;
};

}  // namespace booster

template <>
struct std::tuple_size<booster::Batch> : std::integral_constant<size_t, 2> {};
template <size_t i>
struct std::tuple_element<i, booster::Batch> {
  using type = booster::Tensor;
};
