// The consumer's part of the engine: waiting for batches, agreeing with other ranks, delivery.
#include "core/data/engine.h"
#include "platform/error.h"
#include "platform/trace.h"

#include <algorithm>
#include <chrono>
#include <numeric>

namespace booster {
namespace {

constexpr auto ask_every = std::chrono::milliseconds(100);  // how often give_up is called

}  // namespace

bool Engine::gives_up() const { return options_.give_up && options_.give_up(); }

// Stops between two samples if the consumer gives up; a later call continues.
void Engine::finish_inline(Job& job) {
  while (job.claimed < job.size() && !gives_up()) {
    fill(job, job.claimed++);
    ++job.finished;
  }
  if (job.finished < job.size() || job.is_ready) return;
  pack(job);
  job.is_ready = true;
}

Engine::Front Engine::wait_for_front() {
  const kernels::TraceScope span("wait for batch", kernels::SpanKind::loader);
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  if (prepared_) return {};
  const auto ready = [&] { return jobs_.empty() ? epoch_->has_ended : jobs_.front()->is_ready; };
  bool given_up = false;
  if (options_.workers == 0) {
    if (jobs_.empty() && !epoch_->has_ended) plan(lock);
    if (!jobs_.empty()) {
      const auto job = jobs_.front();
      lock.unlock();
      finish_inline(*job);
      lock.lock();
    }
    given_up = !ready();
  } else {
    while (!batch_ready_.wait_for(lock, ask_every, ready) && !given_up) given_up = gives_up();
    given_up = given_up && !ready();
  }
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  wait_seconds_ += waited.count();
  if (given_up || jobs_.empty()) return {.gives_up = given_up};
  Front front{.job = jobs_.front()};
  jobs_.pop_front();
  work_ready_.notify_all();
  return front;
}

// Decides whether this rank goes on with its next batch. Ranks that end together decide alike, and
// none waits for one that has an error. Sets the batch's weight.
bool Engine::goes_on(Front& front, const std::exception_ptr& error) {
  constexpr int64_t failed = -2, left = -1;
  const bool is_together = stream_ && ends_together(options_) && !prepared_;
  if (!is_together) {
    if (error) std::rethrow_exception(error);
    return front.job != nullptr;
  }
  const int64_t counted = front.job ? front.job->plan.counted : 0;
  const std::vector<int64_t> all = options_.gather(error            ? failed
                                                   : front.gives_up ? left
                                                                    : counted);
  if (error) std::rethrow_exception(error);
  const auto wrong = std::ranges::find(all, failed);
  if (wrong != all.end()) {
    abandon();
    fail_run("DataLoader: rank {} of those that share the stream failed to read its part",
             wrong - all.begin());
  }
  front.gives_up = std::ranges::count(all, left) > 0;
  if (front.gives_up) return false;
  const int64_t least = std::ranges::min(all), sum = std::accumulate(all.begin(), all.end(), 0L);
  if (options_.drop_last ? least < options_.batch_size : sum == 0) return false;
  if (options_.join)
    options_.weight->value =
        static_cast<double>(counted * options_.world_size) / static_cast<double>(sum);
  return true;
}

std::optional<Batch> Engine::next() {
  check_threads("operator++");
  const OneThread::Scope alone(consumer_, "operator++");
  for (;;) {
    Front front = wait_for_front();
    std::optional<Batch> batch;
    std::exception_ptr error;
    try {
      if (front.job) batch = without_bad(*front.job);
    } catch (...) {
      error = std::current_exception();
    }
    if (!goes_on(front, error)) {
      leave_epoch(front.gives_up);
      return std::nullopt;
    }
    LoaderState at;
    {
      std::lock_guard lock(mutex_);
      if (options_.join && !stream_)
        options_.weight->value =
            joined_shares(*dataset_, options_).weight(options_.rank, now_.batch);
      at = {now_.epoch, now_.batch};
      ++now_.batch;
      place_ = front.job->plan.after;
      counted_ = front.job->plan.counted;
    }
    if (batch) return given_out(*front.job, std::move(*batch), at);
  }
}

// Ends the loop. If the consumer gives up, the next loop continues after the last batch. Otherwise
// it begins the next epoch.
void Engine::leave_epoch(bool gives_up) {
  std::lock_guard lock(mutex_);
  counted_ = 0;
  if (options_.join) options_.weight->value = 1;
  if (!next_) next_ = gives_up ? here() : LoaderState{now_.epoch + 1, 0};
}

void Engine::abandon() {
  std::lock_guard lock(mutex_);
  jobs_.clear();
  epoch_->has_ended = true;
}

}  // namespace booster
