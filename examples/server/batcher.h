// Joins samples that arrive from many threads into batches, so that a pass serves several requests.
#pragma once

#include <booster/booster.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

namespace server {

struct BatcherOptions {
  size_t largest = 8;                         // samples of a batch
  std::chrono::microseconds most_wait{2000};  // a batch that is not full starts after so long
  int threads = 1;                            // that run passes, each one batch at a time
};

// Thread-safe. The destructor answers all samples that wait.
class Batcher {
 public:
  Batcher(booster::Predictor predict, BatcherOptions options);
  ~Batcher();
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;

  // Takes a contiguous sample on the CPU, without the dimension of the batch; all have one shape.
  // The result is the sample's row of the output, or the error of the pass.
  std::future<booster::Tensor> submit(booster::Tensor sample);
  double mean_batch() const;  // samples per pass so far

 private:
  using Clock = std::chrono::steady_clock;
  struct Waiting {
    booster::Tensor sample;
    std::promise<booster::Tensor> answer;
    Clock::time_point since;
  };
  void work();
  std::vector<Waiting> next_batch();  // empty at the end
  void answer(std::vector<Waiting>& batch);

  const booster::Predictor predict_;
  const BatcherOptions options_;
  mutable std::mutex mutex_;  // of the members below
  std::condition_variable changed_;
  std::deque<Waiting> waiting_;
  bool ends_ = false;
  int64_t samples_ = 0, batches_ = 0;
  std::vector<std::thread> threads_;
};

}  // namespace server
