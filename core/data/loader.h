// DataLoader: batches of a dataset, prepared ahead by worker threads.
//
//   DataLoader loader(dataset, {.batch_size = 128, .shuffle = true, .drop_last = true});
//   for (auto& [image, label] : loader) ...            // one epoch; the next loop is the next
//   epoch
//
// Batches are bit-identical for any number of workers: order and augmentation depend only on the
// seed, the epoch and the sample. A DataLoader is a handle, and copies share its state; it is for
// one consumer thread.
#pragma once

#include "core/data/batch.h"
#include "core/data/dataset.h"
#include "core/data/sampler.h"
#include "core/tensor/tensor.h"

#include <concepts>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace booster {

enum class BadImagePolicy {
  fail,  // the first bad image ends the epoch with its error
  skip,  // bad images are dropped from their batch, which gets smaller, and listed
};
// "fail" or "skip"; error with the legal names otherwise.
BadImagePolicy bad_image_policy(const std::string& name);

struct BadImage {
  int64_t index;       // in the dataset
  std::string reason;  // names the file
};

// How much the batch in hand counts beside those that other ranks have at the same time: 1, unless
// the loader joins uneven shares.
struct BatchWeight {
  double value = 1;
};

struct DataLoaderOptions {
  int64_t batch_size = 1;
  bool shuffle = false;
  bool drop_last = false;  // drop the last batch if it is not full
  int workers = 2;         // threads; 0: the consumer thread does the work
  int prefetch = 2;        // batches made ahead
  uint64_t seed = 42;      // of order and augmentation
  BadImagePolicy on_bad_image = BadImagePolicy::fail;
  Device device = {};      // to which batches are copied when they are given out
  int rank = 0;  // with world_size > 1 each rank gets its share: see DistributedSampler
  int world_size = 1;
  // Equally many samples for all ranks, some of them twice, as training needs: ranks meet in every
  // step. false, for evaluation: each sample once in all, so that some ranks may have a batch less
  // than others, or none.
  bool even_shares = true;
  // Another way to train: each sample counts once in all, and yet ranks have equally many batches.
  // The last ones may be smaller on some ranks. A rank that has none left gets one sample that
  // counts for nothing: the loop runs on every rank as often, and what is done in it. The means of
  // the ranks' losses must be weighted (see weight() below); a Booster does. With drop_last batches
  // are dropped that are not full on every rank. Not with a sampler, nor without even_shares.
  bool join = false;
  std::shared_ptr<BatchWeight> weight = nullptr;  // told of each batch, if shares are joined
  // Asked several times a second while a batch is waited for; true ends the loop without it, and
  // the next loop goes on there. For programs that have to react to something, such as a signal,
  // also while data is slow.
  std::function<bool()> give_up = nullptr;
  // How often an epoch takes each of its samples, with another augmentation each time; of a share
  // of the samples: see RepeatedAugmentationSampler. 1: once.
  int64_t repeated_augmentation = 1;
  // Changes each batch as it is given out (Mixup).
  std::shared_ptr<const BatchTransform> batch_transform = nullptr;
  std::shared_ptr<const Sampler> sampler = nullptr;  // instead of shuffle, rank and world_size
};

// A loader's position: `batch` batches of `epoch` have been delivered. In the loop's body after the
// last batch it is that of the epoch's end; once the loop has ended, the start of the next epoch.
struct LoaderState {
  uint64_t epoch = 0;
  int64_t batch = 0;
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
    // Waits for a batch. Rethrows an error from a worker.
    Iterator& operator++();
    void operator++(int) { ++*this; }
    Batch& operator*() const { return *batch_; }
    Batch* operator->() const { return batch_.get(); }
    friend bool operator==(const Iterator& a, End) { return !a.batch_; }

   private:
    friend class DataLoader;
    class Engine* engine_ = nullptr;
    std::shared_ptr<Batch> batch_;  // null at the end
  };

  // Lets the workers make the first batches of the next epoch, so that begin() need not wait for
  // them. Ends the current epoch if one is running; has no other effect.
  void prepare();
  // Begins the next epoch, or continues at the position given to load_state. An epoch that was left
  // early counts as finished.
  Iterator begin();
  End end() const { return {}; }

  // Batches in an epoch.
  int64_t size() const;
  const Dataset& dataset() const;
  const DataLoaderOptions& options() const;

  // The next begin() starts this epoch.
  void set_epoch(uint64_t epoch);
  // After load_state(state()) the next begin() gives the batch that would have come next; samples
  // before it are not read. A loop that was left early has not ended its epoch: the rest comes.
  LoaderState state() const;
  void load_state(LoaderState state);

  // Of the batch in hand; 1 behind the loop. With `join`: its samples relative to their mean over
  // the ranks, so that the mean over the ranks of losses times this is the mean over all samples.
  double weight() const;

  // Seconds that the consumer has waited for data since the loader was created.
  double wait_seconds() const;
  // Skipped images so far, each once, by index.
  std::vector<BadImage> bad_images() const;

 private:
  std::shared_ptr<class Engine> engine_;
};

}  // namespace booster
