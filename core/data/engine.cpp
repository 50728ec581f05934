#include "core/data/engine.h"

#include "platform/error.h"
#include "platform/forks.h"
#include "platform/system_limits.h"
#include "platform/trace.h"

#include <algorithm>
#include <chrono>
#include <cstring>

namespace booster {
namespace {

constexpr auto ask_every = std::chrono::milliseconds(100);  // how often give_up is called

constexpr int repeat_bits = 40;  // of a random stream's number: the sample's index, before repeats

std::shared_ptr<const Sampler> sampler_for(int64_t size, const DataLoaderOptions& options) {
  if (options.repeated_augmentation > 1)
    return std::make_shared<RepeatedAugmentationSampler>(
        size, RepeatedAugmentationSamplerOptions{.rank = options.rank,
                                                 .world_size = options.world_size,
                                                 .shuffle = options.shuffle,
                                                 .seed = options.seed,
                                                 .repeats = options.repeated_augmentation});
  if (options.world_size > 1)
    return std::make_shared<DistributedSampler>(
        size, DistributedSamplerOptions{.rank = options.rank,
                                        .world_size = options.world_size,
                                        .shuffle = options.shuffle,
                                        .seed = options.seed,
                                        .even_shares = options.even_shares});
  if (options.shuffle) return std::make_shared<RandomSampler>(size, options.seed);
  return std::make_shared<SequentialSampler>(size);
}

void check_options(const DataLoaderOptions& options) {
  check(options.batch_size >= 1, "DataLoader: batch_size out of range; got {}, want 1 or more",
        options.batch_size);
  check(options.workers >= 0 && options.workers <= 256,
        "DataLoader: workers out of range; got {}, want 0 to 256", options.workers);
  check(options.prefetch >= 1, "DataLoader: prefetch out of range; got {}, want 1 or more",
        options.prefetch);
  check(!options.join || (options.even_shares && !options.sampler),
        "DataLoader: join excludes other ways to divide samples; got it {}",
        options.sampler ? "with a sampler" : "without even_shares");
  check(options.repeated_augmentation >= 1,
        "DataLoader: repeated_augmentation out of range; got {}, want 1 or more",
        options.repeated_augmentation);
  check(options.repeated_augmentation == 1 ||
            (options.even_shares && !options.join && !options.sampler),
        "DataLoader: repeated_augmentation excludes other ways to divide samples; got it {}",
        options.sampler ? "with a sampler"
        : options.join  ? "with join"
                        : "without even_shares");
}

char* row(const Tensor& tensor, int64_t i) {
  return static_cast<char*>(tensor.data()) + i * (tensor.bytes() / tensor.size(0));
}

// Moves the rows that are not bad to the front, and returns them.
Tensor without_rows(const Tensor& all, const std::map<int64_t, std::exception_ptr>& bad) {
  int64_t good = 0;
  for (int64_t i = 0; i < all.size(0); ++i) {
    if (bad.contains(i)) continue;
    if (i != good)
      std::memcpy(row(all, good), row(all, i), static_cast<size_t>(row(all, i + 1) - row(all, i)));
    ++good;
  }
  return untracked::narrow(all, 0, 0, good);
}

}  // namespace

Engine::Engine(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options)
    : dataset_(std::move(dataset)), options_(std::move(options)) {
  check(dataset_ != nullptr, "DataLoader: no data set; got null");
  check_options(options_);
  if (options_.device.type == DeviceType::cuda) staging_.emplace(options_.device);
  if (!options_.weight) options_.weight = std::make_shared<BatchWeight>();
  if (!options_.sampler) options_.sampler = sampler_for(dataset_->size(), options_);
  check(batches() > 0 || (options_.world_size > 1 && !options_.even_shares),
        "DataLoader: no full batch; got {} samples, want at least batch_size {} with drop_last",
        options_.sampler->size(), options_.batch_size);
}

Engine::~Engine() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  work_ready_.notify_all();
  for (auto& thread : threads_) thread.join();
}

bool Engine::has_its_threads() const { return threads_.empty() || forks_ == fork_count(); }

void Engine::check_threads(const char* call) const {
  check(has_its_threads(),
        "DataLoader: {} is called in a child of fork, which has none of the worker threads; want a "
        "loader that the child makes",
        call);
}

JoinedShares Engine::joined() const {
  return {.samples = dataset_->size(),
          .world_size = options_.world_size,
          .batch_size = options_.batch_size,
          .drop_last = options_.drop_last};
}

int64_t Engine::batches() const {
  if (options_.join) return joined().batches();
  const int64_t n = options_.sampler->size();
  return (n + (options_.drop_last ? 0 : options_.batch_size - 1)) / options_.batch_size;
}

LoaderState Engine::state() const {
  std::lock_guard lock(mutex_);
  return next_.value_or(now_);
}

void Engine::load_state(LoaderState state) {
  check(state.batch >= 0 && state.batch <= batches(),
        "DataLoader: position out of range; got batch {}, want 0 to {}", state.batch, batches());
  std::lock_guard lock(mutex_);
  next_ = state;
}

double Engine::wait_seconds() const {
  std::lock_guard lock(mutex_);
  return wait_seconds_;
}

std::vector<BadImage> Engine::bad_images() const {
  std::lock_guard lock(mutex_);
  std::vector<BadImage> list;
  for (const auto& [index, reason] : bad_images_) list.push_back({index, reason});
  return list;
}

// Returns the position at which the next begin() starts.
LoaderState Engine::upcoming() const { return next_.value_or(LoaderState{now_.epoch + 1, 0}); }

void Engine::prepare() {
  check_threads("prepare()");
  const OneThread::Scope alone(consumer_, "prepare()");
  std::lock_guard lock(mutex_);
  if (prepared_ == upcoming()) return;
  make_from(upcoming());
  prepared_ = upcoming();
}

void Engine::begin() {
  check_threads("begin()");
  const OneThread::Scope alone(consumer_, "begin()");
  std::lock_guard lock(mutex_);
  const LoaderState from = upcoming();
  if (prepared_ != from) make_from(from);
  prepared_.reset();
  next_.reset();
  now_ = from;
}

void Engine::make_from(LoaderState from) {
  making_ = from.epoch;
  order_ = options_.sampler->indices(from.epoch);
  scheduled_ = from.batch;
  jobs_.clear();
  schedule();
  if (threads_.empty()) start_workers();
}

void Engine::start_workers() {
  forks_ = fork_count();
  for (int i = 0; i < options_.workers; ++i)
    threads_.push_back(start_thread("DataLoader: workers", [this] { work(); }));
}

// Keeps `prefetch` batches in progress.
void Engine::schedule() {
  const auto n = static_cast<int64_t>(order_.size());
  while (scheduled_ < batches() && static_cast<int>(jobs_.size()) < options_.prefetch) {
    const int64_t begin = scheduled_ * options_.batch_size;
    int64_t end = std::min(begin + options_.batch_size, n);
    if (options_.join)  // a padding sample replaces a missing one
      end = begin + std::max<int64_t>(joined().count(options_.rank, scheduled_), 1);
    auto job = std::make_shared<Job>();
    job->epoch = making_;
    job->place = begin;
    job->indices.assign(order_.begin() + begin, order_.begin() + end);
    jobs_.push_back(std::move(job));
    ++scheduled_;
  }
  work_ready_.notify_all();
}

std::shared_ptr<Engine::Job> Engine::claimable() const {
  for (const auto& job : jobs_)
    if (job->claimed < job->size()) return job;
  return nullptr;
}

void Engine::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    std::shared_ptr<Job> job;
    work_ready_.wait(lock, [&] { return stopping_ || (job = claimable()); });
    if (stopping_) return;
    const int64_t position = job->claimed++;
    lock.unlock();
    fill(*job, position);
    lock.lock();
    if (++job->finished < job->size()) continue;
    lock.unlock();
    pack(*job);
    lock.lock();
    job->is_ready = true;
    batch_ready_.notify_one();
  }
}

// Loads one sample into its slot. Never throws: errors are kept for the consumer.
void Engine::fill(Job& job, int64_t position) {
  const MemoryScope memory(MemoryTag::data);
  const kernels::TraceScope span("load sample", kernels::SpanKind::loader);
  try {
    const int64_t index = job.indices[position];
    const auto repeat = static_cast<uint64_t>(options_.sampler->repeat(job.place + position));
    RandomStream random(options_.seed, job.epoch,
                        static_cast<uint64_t>(index) | repeat << repeat_bits);
    const Sample sample = dataset_->load_in_batch(index, job.indices, random);
    reserve(job, sample);
    if (job.is_collated) {
      job.samples[static_cast<size_t>(position)] = sample;
      return;
    }
    if (job.images)
      job.images->set(position, *sample.lazy());
    else
      sample.write(row(job.batch.image, position));
    const Tensor& label = sample.label();
    std::memcpy(row(job.batch.label, position), label.data(), static_cast<size_t>(label.bytes()));
  } catch (...) {
    std::lock_guard lock(mutex_);
    job.errors[position] = std::current_exception();
  }
}

// Packs a batch once all its samples are loaded. Never throws, as above.
void Engine::pack(Job& job) const {
  if (!job.images && !job.is_collated) return;
  const MemoryScope memory(MemoryTag::data);
  try {
    if (job.images)
      job.images->pack(&*staging_);
    else
      collate(job);
  } catch (...) {
    job.error = std::current_exception();
  }
}

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

// Returns the finished first job, or null at the end of the epoch or if the consumer gives up.
std::shared_ptr<Engine::Job> Engine::wait_for_front() {
  const kernels::TraceScope span("wait for batch", kernels::SpanKind::loader);
  const auto start = std::chrono::steady_clock::now();
  std::unique_lock lock(mutex_);
  if (jobs_.empty() || prepared_) return nullptr;
  auto job = jobs_.front();
  const auto ready = [&] { return job->is_ready; };
  bool given_up = false;
  if (options_.workers == 0) {
    lock.unlock();
    finish_inline(*job);
    lock.lock();
    given_up = !ready();
  } else {
    while (!batch_ready_.wait_for(lock, ask_every, ready) && !given_up) given_up = gives_up();
    given_up = given_up && !ready();
  }
  const std::chrono::duration<double> waited = std::chrono::steady_clock::now() - start;
  wait_seconds_ += waited.count();
  if (given_up) {
    if (!next_) next_ = now_;
    return nullptr;
  }
  jobs_.pop_front();
  schedule();
  return job;
}

std::optional<Batch> Engine::next() {
  check_threads("operator++");
  const OneThread::Scope alone(consumer_, "operator++");
  while (auto job = wait_for_front()) {
    auto batch = without_bad(*job);
    LoaderState at;
    {
      std::lock_guard lock(mutex_);
      if (options_.join) options_.weight->value = joined().weight(options_.rank, now_.batch);
      at = now_;
      ++now_.batch;
    }
    if (batch) return given_out(*job, std::move(*batch), at);
  }
  // The consumer has left the epoch, so new positions are in the next one.
  std::lock_guard lock(mutex_);
  if (options_.join) options_.weight->value = 1;
  if (!next_) next_ = LoaderState{now_.epoch + 1, 0};
  return std::nullopt;
}

void Engine::abandon() {
  std::lock_guard lock(mutex_);
  jobs_.clear();
  scheduled_ = batches();
}

// Returns the batch without its bad samples, or nothing if none are left. Throws errors that the
// policy does not cover, lowest position first, regardless of the worker.
std::optional<Batch> Engine::without_bad(Job& job) {
  if (job.error) {
    abandon();
    std::rethrow_exception(job.error);
  }
  for (const auto& [position, error] : job.errors) try {
      std::rethrow_exception(error);
    } catch (const Error& bad) {
      if (options_.on_bad_image == BadImagePolicy::fail || bad.kind() != ErrorKind::data) {
        abandon();
        throw;
      }
      std::lock_guard lock(mutex_);
      bad_images_[job.indices[position]] = bad.what();
    } catch (...) {
      abandon();
      throw;
    }
  const bool has_good = static_cast<int64_t>(job.errors.size()) < job.size();
  if (job.errors.empty() || (job.is_collated && has_good)) return job.batch;
  const Batch& all = job.batch;
  if (has_good)
    return Batch{job.images ? Tensor() : without_rows(all.image, job.errors),
                 without_rows(all.label, job.errors)};
  // The other ranks have a batch now, and would wait forever if this rank continued without one.
  if (options_.world_size > 1 && options_.even_shares)
    fail_data("DataLoader: all {} images of a batch of rank {} are bad, the first: {}", job.size(),
              options_.rank, bad_images().front().reason);
  return std::nullopt;
}

}  // namespace booster
