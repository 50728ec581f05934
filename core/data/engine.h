// The loader's engine: a queue of unfinished batches that worker threads fill sample by sample. The
// epoch's course says which samples they have; one thread at a time asks it for the next batch.
//
// One mutex guards all members. No thread holds it while it loads a sample or asks the course.
#pragma once

#include "core/data/course.h"
#include "core/data/gpu/gpu_batch.h"
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

  // Throws for a stream.
  int64_t batches() const;
  const Dataset& dataset() const { return *dataset_; }
  const DataLoaderOptions& options() const { return options_; }
  LoaderState state() const;
  void load_state(LoaderState state);
  double weight() const { return options_.weight->value; }
  double wait_seconds() const;
  std::vector<BadImage> bad_images() const;
  // Returns the number of samples of the current batch of a stream that count, at its front.
  int64_t counted() const;

 private:
  struct Epoch {
    uint64_t number;
    std::unique_ptr<Course> course;
    bool is_planning = false;  // a thread asks the course
    bool has_ended = false;    // there are no further batches
  };
  // An unfinished batch.
  struct Job {
    uint64_t epoch;
    BatchPlan plan;
    Batch batch;                                 // allocated when the first sample's shape is known
    Shape shape;                                 // of a sample
    std::optional<GpuBatch> images;              // replaces batch.image if a GPU assembles it
    bool is_collated = false;                    // pack() makes the batch of the samples
    std::vector<std::optional<Sample>> samples;  // by position, until it does
    bool is_ready = false;                       // all samples are loaded, and `images` is packed
    std::exception_ptr error;                    // of packing
    int64_t claimed = 0, finished = 0;
    std::map<int64_t, std::exception_ptr> errors;  // of samples, by position
    int64_t size() const { return plan.size(); }
  };
  // What the consumer finds: the next batch, or none at the end of the epoch or if it gives up.
  struct Front {
    std::shared_ptr<Job> job = nullptr;
    bool gives_up = false;
  };

  LoaderState here() const;
  LoaderState upcoming() const;
  void make_from(LoaderState from);
  void start_workers();
  void check_threads(const char* call) const;
  void work();
  std::shared_ptr<Job> claimable() const;
  bool can_plan() const;
  void plan(std::unique_lock<std::mutex>& lock);
  Sample load(const Job& job, int64_t position) const;
  void fill(Job& job, int64_t position);
  void pack(Job& job) const;
  void reserve(Job& job, const Sample& sample);
  bool collates(const Sample& sample) const { return options_.collate || sample.is_named(); }
  void collate(Job& job) const;
  Tensor to_fill(const Shape& shape, DType dtype);
  bool gives_up() const;
  void finish_inline(Job& job);
  Front wait_for_front();
  std::optional<Batch> without_bad(Job& job);
  bool goes_on(Front& front, const std::exception_ptr& error);
  void leave_epoch(bool gives_up);
  Batch given_out(const Job& job, Batch batch, LoaderState at) const;
  void abandon();

  const std::shared_ptr<const Dataset> dataset_;
  const StreamDataset* const stream_;  // null: `dataset_` has indices
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
  std::shared_ptr<const StreamPosition> place_;  // of now_, within an epoch of a stream
  int64_t counted_ = 0;
  std::shared_ptr<Epoch> epoch_;  // of the current jobs
  std::deque<std::shared_ptr<Job>> jobs_;
  double wait_seconds_ = 0;
  std::map<int64_t, std::string> bad_images_;
};

}  // namespace booster
