// DataLoader: batches of a dataset, which worker threads prepare ahead.
//
//   DataLoader loader(dataset, {.batch_size = 128, .shuffle = true, .drop_last = true});
//   for (auto& [image, label] : loader) ...            // one epoch; the next loop is the next one
//
// Samples with names give batches with names (Batch::inputs, Batch::targets, batch["mask"]):
//
//   for (const Batch& batch : loader) loss_fn(net(batch.inputs()), batch.targets());
//
// Batches are bit-identical for any number of workers: order and augmentation depend only on the
// seed, the epoch and the sample. A DataLoader is a handle; copies share its state. It is for one
// consumer thread at a time: a second one's calls meanwhile throw. Its iterators keep it alive.
#pragma once

#include "core/data/dataset.h"
#include "core/tensor/tensor.h"

#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace booster {

// --- The order in which an epoch visits a dataset. A sampler is a pure function of the epoch. The
// loader keeps its position as a number, and the same seed gives the same order everywhere.
// Immutable; thread-safe.

class Sampler {
 public:
  virtual ~Sampler() = default;
  // Returns the number of indices in an epoch.
  virtual int64_t size() const = 0;
  virtual std::vector<int64_t> indices(uint64_t epoch) const = 0;
  // Returns how often the sample at this place of indices() has occurred earlier in the epoch, on
  // any rank. Each occurrence is augmented with different random numbers. It is 0 unless the
  // sampler intentionally repeats samples.
  virtual int64_t repeat(int64_t /*place*/) const { return 0; }
};

class SequentialSampler : public Sampler {
 public:
  explicit SequentialSampler(int64_t size);
  int64_t size() const override { return size_; }
  std::vector<int64_t> indices(uint64_t epoch) const override;

 private:
  int64_t size_;
};

// A permutation, different in each epoch.
class RandomSampler : public Sampler {
 public:
  explicit RandomSampler(int64_t size, uint64_t seed = 42);
  int64_t size() const override { return size_; }
  std::vector<int64_t> indices(uint64_t epoch) const override;

 private:
  int64_t size_;
  uint64_t seed_;
};

struct DistributedSamplerOptions {
  int rank = 0;
  int world_size = 1;
  bool shuffle = true;
  uint64_t seed = 42;
  bool drop_last = false;
  bool even_shares = true;  // all ranks get equally many indices; see below
};

// Every world_size-th index of one common order, starting at the rank's number, as in PyTorch. All
// ranks get equally many indices: indices from the front pad the end, or drop_last drops the tail.
// Without `even_shares` each index goes to exactly one rank, and the last ranks may have one fewer
// than the first, or none. The ranks' k-th batches together are the k-th batch of one process with
// the combined batch size.
class DistributedSampler : public Sampler {
 public:
  DistributedSampler(int64_t size, DistributedSamplerOptions options);
  int64_t size() const override { return per_rank_; }
  std::vector<int64_t> indices(uint64_t epoch) const override;

 private:
  int64_t size_, per_rank_;
  DistributedSamplerOptions options_;
};

struct RepeatedAugmentationSamplerOptions {
  int rank = 0;
  int world_size = 1;
  bool shuffle = true;
  uint64_t seed = 42;
  int64_t repeats = 3;
};

// Repeated augmentation (Hoffer et al., "Augment your batch", 2020) as in timm and torchvision. In
// the common order each sample occurs `repeats` times in a row. Ranks take every world_size-th
// entry, so the ranks' batches together hold several augmentations of one image. An epoch does not
// get longer: all ranks together take as many entries as there are samples. So an epoch uses only a
// part of the samples. This count is rounded down to a multiple of 256 if it is at least 256.
class RepeatedAugmentationSampler : public Sampler {
 public:
  RepeatedAugmentationSampler(int64_t size, RepeatedAugmentationSamplerOptions options);
  int64_t size() const override { return per_rank_; }
  std::vector<int64_t> indices(uint64_t epoch) const override;
  int64_t repeat(int64_t place) const override;

 private:
  // Converts a rank's place to a place in the common order.
  int64_t common_place(int64_t place) const { return options_.rank + place * options_.world_size; }
  int64_t size_, per_rank_;
  RepeatedAugmentationSamplerOptions options_;
};

struct BucketOptions {
  int64_t batch_size = 1;            // the loader's
  int64_t batches_per_bucket = 100;  // more: less padding, and an order that is less random
  int rank = 0;
  int world_size = 1;
  bool shuffle = true;
  uint64_t seed = 42;
  bool drop_last = false;  // equal shares without repeats
};

// Returns a sampler whose batches hold samples of similar lengths, so that pad_to_longest pads
// little. It shuffles, sorts buckets of many batches by length, and visits all batches in random
// order. Ranks share each batch of all ranks. `lengths` has one entry for each sample.
std::shared_ptr<const Sampler> bucket_by_length(std::vector<int64_t> lengths,
                                                const BucketOptions& options);

// --- the loader

enum class BadImagePolicy {
  fail,  // the first bad image ends the epoch with its error
  skip,  // bad images are dropped from their batch, which shrinks, and listed
};
// Returns the policy "fail" or "skip"; throws with the legal names otherwise.
BadImagePolicy bad_image_policy(const std::string& name);

struct BadImage {
  int64_t index;       // in the dataset
  std::string reason;  // names the file
};

// Makes a batch of the samples of one batch, in their order. It must depend on them alone. Workers
// call it, several at once.
using Collate = std::function<Batch(const std::vector<Sample>& samples)>;
// Returns a collate function for samples of different lengths. It pads dimension 0 of the tensors
// with these names to the longest of the batch, at the end, with these values. Other tensors must
// have equal shapes. Samples without names call theirs "image" and "label". Throws for a name that
// the samples lack.
//   {.batch_size = 8, .collate = pad_to_longest({{"tokens", 0}, {"mask", 0}})}
Collate pad_to_longest(std::vector<std::pair<std::string, double>> values);

// The weight of the current batch relative to the other ranks' batches; 1 unless the loader joins
// uneven shares.
struct BatchWeight {
  double value = 1;
};

struct DataLoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;
  bool drop_last = false;  // drop the last batch if it is not full
  int workers = 2;         // threads; 0: the consumer thread loads
  int prefetch = 2;        // batches prepared ahead
  uint64_t seed = 42;      // of order and augmentation
  BadImagePolicy on_bad_image = BadImagePolicy::fail;
  Device device = {};  // where batches are copied on delivery
  int rank = 0;        // with world_size > 1 each rank gets a share: see DistributedSampler
  int world_size = 1;
  // Gives all ranks equally many samples, some of them twice. Training needs this, since ranks
  // communicate in every step. false, for evaluation, gives each sample to exactly one rank; some
  // ranks may then have one batch fewer than others, or none.
  bool even_shares = true;
  // An alternative to even shares for training: each sample counts once, and all ranks have equally
  // many batches. The last batches may be smaller on some ranks. A rank without remaining samples
  // gets one sample of weight 0, so the loop runs equally often on every rank. The mean of the
  // ranks' losses must be weighted (see weight() below); a Booster does so. drop_last drops batches
  // that are not full on every rank. Not allowed with a sampler, or without even_shares.
  bool join = false;
  std::shared_ptr<BatchWeight> weight = nullptr;  // set for each batch if `join` is set
  // Called several times a second while the consumer waits for a batch. If it returns true, the
  // loop ends without that batch, and the next loop continues there. It lets programs react to
  // signals while data is slow.
  std::function<bool()> give_up = nullptr;
  // Augmented copies of each used sample per epoch; an epoch then uses only a part of the samples
  // (RepeatedAugmentationSampler). 1: no copies.
  int64_t repeated_augmentation = 1;
  // Of a stream that is shuffled: about how many records are in memory and mixed, on one rank.
  // Shards are visited in random order, eight at a time.
  int64_t shuffle_buffer = 1000;
  // With it: batches of similar lengths, by sorting the buffer; one shard is read at a time.
  bool by_length = false;
  // Returns the numbers of all ranks that share a stream, by rank; a collective, once for each
  // batch, by which they end together. prepare_dataloader sets it. Without even_shares unused.
  std::function<std::vector<int64_t>(int64_t number)> gather = nullptr;
  // Transforms each batch on delivery (Mixup).
  std::shared_ptr<const BatchTransform> batch_transform = nullptr;
  std::shared_ptr<const Sampler> sampler = nullptr;  // replaces shuffle, rank and world_size
  Collate collate = nullptr;                         // null: stacks samples of equal shapes
};

// A loader's position: `batch` batches of `epoch` have been delivered. In the loop's body after the
// last batch it is the end of the epoch. After the loop it is the start of the next epoch.
struct LoaderState {
  uint64_t epoch = 0;
  int64_t batch = 0;
  std::string stream = {};  // within an epoch of a stream: this rank's place in it, as JSON
  friend bool operator==(const LoaderState&, const LoaderState&) = default;
};

class DataLoader {
 public:
  DataLoader(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options);
  template <std::derived_from<Dataset> D>
  DataLoader(D dataset, DataLoaderOptions options)
      : DataLoader(std::shared_ptr<const Dataset>(std::make_shared<D>(std::move(dataset))),
                   std::move(options)) {}

  struct End {};
  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = ptrdiff_t;
    // Waits for a batch. Rethrows a worker's error.
    Iterator& operator++();
    void operator++(int) { ++*this; }
    Batch& operator*() const { return *batch_; }
    Batch* operator->() const { return batch_.get(); }
    friend bool operator==(const Iterator& a, End) { return !a.batch_; }

   private:
    friend class DataLoader;
    std::shared_ptr<class Engine> engine_;  // outlives the loader
    std::shared_ptr<Batch> batch_;          // null at the end
  };

  // Lets the workers start on the next epoch's first batches, so that begin() waits less. Ends the
  // current epoch if one is running; has no other effect.
  void prepare();
  // Begins the next epoch, or continues at the position given to load_state. An epoch left early
  // counts as finished.
  Iterator begin();
  End end() const { return {}; }

  // Batches in an epoch. Throws for a stream.
  int64_t size() const;
  const Dataset& dataset() const;
  const DataLoaderOptions& options() const;

  // Makes the next begin() start this epoch.
  void set_epoch(uint64_t epoch);
  // Returns the position. After load_state(state()) the next begin() gives the batch that would
  // have come next, without reading earlier samples. If a loop was left early, its epoch has not
  // ended, and the rest follows.
  LoaderState state() const;
  void load_state(LoaderState state);

  // Returns the weight of the current batch; 1 after the loop. With `join` it is the batch's
  // samples relative to their mean over the ranks. The ranks' mean of (loss * weight) is then the
  // mean over all samples.
  double weight() const;
  // Returns how many samples of a stream's current batch count. Those after them are repeats.
  int64_t counted() const;

  // Seconds that the consumer has waited for data since the loader was created.
  double wait_seconds() const;
  // Returns the skipped images so far, each once, by index.
  std::vector<BadImage> bad_images() const;

 private:
  Handle<class Engine, "DataLoader"> engine_;
};

}  // namespace booster
