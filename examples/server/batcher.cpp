#include "examples/server/batcher.h"

#include <cstring>
#include <exception>

namespace server {

using namespace booster;

Batcher::Batcher(Predictor predict, BatcherOptions options)
    : predict_(std::move(predict)), options_(options) {
  for (int i = 0; i < options_.threads; ++i) threads_.emplace_back([this] { work(); });
}

Batcher::~Batcher() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

std::future<Tensor> Batcher::submit(Tensor sample) {
  std::future<Tensor> answer;
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back({std::move(sample), {}, Clock::now()});
    answer = waiting_.back().answer.get_future();
  }
  changed_.notify_one();
  return answer;
}

double Batcher::mean_batch() const {
  const std::lock_guard lock(mutex_);
  return batches_ == 0 ? 0 : static_cast<double>(samples_) / static_cast<double>(batches_);
}

std::vector<Batcher::Waiting> Batcher::next_batch() {
  std::unique_lock lock(mutex_);
  std::vector<Waiting> batch;
  while (batch.empty()) {
    changed_.wait(lock, [&] { return ends_ || !waiting_.empty(); });
    if (waiting_.empty()) return batch;
    const auto is_full = [&] { return ends_ || waiting_.size() >= options_.largest; };
    changed_.wait_until(lock, waiting_.front().since + options_.most_wait, is_full);
    // Another thread may have taken them meanwhile.
    while (!waiting_.empty() && batch.size() < options_.largest) {
      batch.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
  }
  samples_ += static_cast<int64_t>(batch.size());
  ++batches_;
  return batch;
}

// Copies by hand: a kernel would start threads, and there are as many as there are cores already.
void Batcher::answer(std::vector<Waiting>& batch) {
  const Tensor& first = batch.front().sample;
  std::vector<int64_t> sizes = {static_cast<int64_t>(batch.size())};
  for (const int64_t size : first.shape()) sizes.push_back(size);
  const Tensor x = empty(Shape(sizes), {.dtype = first.dtype()});
  auto* to = static_cast<char*>(x.data());
  for (const auto& [sample, promise, since] : batch) {
    check(sample.shape() == first.shape() && sample.dtype() == first.dtype(),
          "batcher: samples differ; got {} and {}", first.shape(), sample.shape());
    std::memcpy(to, sample.data(), static_cast<size_t>(sample.bytes()));
    to += sample.bytes();
  }
  const Tensor y = predict_(x);
  for (size_t i = 0; i < batch.size(); ++i)
    batch[i].answer.set_value(select(y, 0, static_cast<int64_t>(i)));
}

void Batcher::work() {
  const NoGradGuard no_grad;
  for (std::vector<Waiting> batch; !(batch = next_batch()).empty();) try {
      answer(batch);
    } catch (...) {
      for (Waiting& one : batch) one.answer.set_exception(std::current_exception());
    }
}

}  // namespace server
