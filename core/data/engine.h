// The loader's engine: a queue of unfinished batches that worker threads fill sample by sample.
//
// One mutex guards all members. No thread holds it while it loads a sample.
#pragma once

#include "core/data/gpu/gpu_batch.h"
#include "core/data/joined_shares.h"
#include "core/data/loader.h"
#include "core/tensor/staging.h"
#include "platform/one_thread.h"

#include <condition_variable>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

namespace booster {

class Engine {
 public:
  Engine(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options);
  ~Engine();
  // Returns false in a child of fork without the worker threads: it must leave the object alone.
  bool has_its_threads() const;

  void prepare();
  void begin();
  // Returns the next batch, or nothing at the end of the epoch.
  std::optional<Batch> next();

  int64_t batches() const;
  const Dataset& dataset() const { return *dataset_; }
  const DataLoaderOptions& options() const { return options_; }
  LoaderState state() const;
  void load_state(LoaderState state);
  double weight() const { return options_.weight->value; }
  double wait_seconds() const;
  std::vector<BadImage> bad_images() const;

 private:
  // An unfinished batch.
  struct Job {
    uint64_t epoch;
    int64_t place;  // of the first sample, in the epoch's order
    std::vector<int64_t> indices;
    Batch batch;                     // allocated when the first sample's shape is known
    Shape shape;                     // of a sample
    std::optional<GpuBatch> images;  // replaces batch.image if a GPU assembles it
    bool is_collated = false;        // pack() makes the batch of the samples
    std::vector<std::optional<Sample>> samples;  // by position, until it does
    bool is_ready = false;           // all samples are loaded, and `images` is packed
    std::exception_ptr error;        // of packing
    int64_t claimed = 0, finished = 0;
    std::map<int64_t, std::exception_ptr> errors;  // of samples, by position
    int64_t size() const { return static_cast<int64_t>(indices.size()); }
  };

  LoaderState upcoming() const;
  void make_from(LoaderState from);
  void start_workers();
  void check_threads(const char* call) const;
  void work();
  std::shared_ptr<Job> claimable() const;
  void schedule();
  JoinedShares joined() const;
  void fill(Job& job, int64_t position);
  void pack(Job& job) const;
  void reserve(Job& job, const Sample& sample);
  bool collates(const Sample& sample) const { return options_.collate || sample.is_named(); }
  void collate(Job& job) const;
  Tensor to_fill(const Shape& shape, DType dtype);
  bool gives_up() const;
  void finish_inline(Job& job);
  std::shared_ptr<Job> wait_for_front();
  std::optional<Batch> without_bad(Job& job);
  Batch given_out(const Job& job, Batch batch, LoaderState at) const;
  void abandon();

  const std::shared_ptr<const Dataset> dataset_;
  DataLoaderOptions options_;
  std::optional<Staging> staging_;  // for batches that go to a GPU

  mutable std::mutex mutex_;
  std::condition_variable work_ready_, batch_ready_;
  std::vector<std::thread> threads_;
  int forks_ = 0;  // fork_count() of the process that started them
  OneThread consumer_{"DataLoader", "the same loader", "a loader"};
  bool stopping_ = false;
  LoaderState now_;                                  // the current epoch's, or the last one's
  std::optional<LoaderState> next_ = LoaderState{};  // where begin() starts; nothing: after now_
  std::optional<LoaderState> prepared_;  // where the jobs start, if begin() is not there yet
  uint64_t making_ = 0;                  // epoch of the current jobs
  std::vector<int64_t> order_;
  int64_t scheduled_ = 0;
  std::deque<std::shared_ptr<Job>> jobs_;
  double wait_seconds_ = 0;
  std::map<int64_t, std::string> bad_images_;
};

}  // namespace booster
