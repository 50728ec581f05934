#include "core/data/engine.h"

#include "platform/error.h"
#include "platform/forks.h"
#include "platform/system_limits.h"

namespace booster {
namespace {

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

void check_stream_options(const DataLoaderOptions& options) {
  check(!options.sampler && options.repeated_augmentation == 1,
        "DataLoader: a stream is read in order; got {}, want none (for batches of similar lengths, "
        "by_length)",
        options.sampler ? "a sampler" : "repeated_augmentation");
  check(options.shuffle_buffer >= 1,
        "DataLoader: shuffle_buffer out of range; got {}, want 1 or more", options.shuffle_buffer);
  check(!options.by_length || options.shuffle,
        "DataLoader: by_length sorts the shuffle buffer; got it without shuffle");
  check(options.world_size >= 1 && options.rank >= 0 && options.rank < options.world_size,
        "DataLoader: rank out of range; got {} of {} ranks", options.rank, options.world_size);
  check(!ends_together(options) || options.gather,
        "DataLoader: ranks that share a stream must end together; got no `gather`, want a loader "
        "of booster.prepare_dataloader, or even_shares = false");
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

}  // namespace

Engine::Engine(std::shared_ptr<const Dataset> dataset, DataLoaderOptions options)
    : dataset_(std::move(dataset)),
      stream_(dynamic_cast<const StreamDataset*>(dataset_.get())),
      options_(std::move(options)) {
  check(dataset_ != nullptr, "DataLoader: no data set; got null");
  check_options(options_);
  if (options_.device.type == DeviceType::cuda) staging_.emplace(options_.device);
  if (!options_.weight) options_.weight = std::make_shared<BatchWeight>();
  check(stream_ || !options_.by_length,
        "DataLoader: by_length is for streams; want the sampler bucket_by_length");
  if (stream_) {
    check_stream_options(options_);
    return;
  }
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

int64_t Engine::batches() const {
  check(!stream_,
        "DataLoader: size() of a loader of a stream; got a data set whose length is unknown before "
        "its end, want a loop over the loader, or a number of steps that the program chooses");
  return batch_count(*dataset_, options_);
}

// Returns the position after the last delivered batch.
LoaderState Engine::here() const {
  return {now_.epoch, now_.batch, place_ ? text_of(*place_) : now_.stream};
}

LoaderState Engine::state() const {
  std::lock_guard lock(mutex_);
  return next_ ? *next_ : here();
}

void Engine::load_state(LoaderState state) {
  if (stream_) {
    check(state.batch >= 0 && (state.batch == 0 || !state.stream.empty()),
          "DataLoader: no place in the stream for batch {}; want 0, or the whole state() of a "
          "loader of the stream",
          state.batch);
    if (!state.stream.empty())
      state.stream = text_of(stream_position(state.stream, stream_->shards(), options_));
  } else {
    check(state.batch >= 0 && state.batch <= batches(),
          "DataLoader: position out of range; got batch {}, want 0 to {}", state.batch, batches());
    check(state.stream.empty(), "DataLoader: a position in a stream; got it for a data set");
  }
  std::lock_guard lock(mutex_);
  next_ = std::move(state);
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

int64_t Engine::counted() const {
  std::lock_guard lock(mutex_);
  return counted_;
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
  place_.reset();
}

void Engine::make_from(LoaderState from) {
  jobs_.clear();
  epoch_ =
      std::make_shared<Epoch>(Epoch{.number = from.epoch,
                                    .course = stream_ ? stream_course(*stream_, options_, from)
                                                      : index_course(*dataset_, options_, from)});
  work_ready_.notify_all();
  if (threads_.empty()) start_workers();
}

void Engine::start_workers() {
  forks_ = fork_count();
  for (int i = 0; i < options_.workers; ++i)
    threads_.push_back(start_thread("DataLoader: workers", [this] { work(); }));
}

// Returns whether a thread is to plan a batch, so that `prefetch` of them are in progress.
bool Engine::can_plan() const {
  return epoch_ && !epoch_->is_planning && !epoch_->has_ended &&
         static_cast<int>(jobs_.size()) < options_.prefetch;
}

// Plans one more batch. The mutex is open meanwhile: the course may read files.
void Engine::plan(std::unique_lock<std::mutex>& lock) {
  const std::shared_ptr<Epoch> epoch = epoch_;
  epoch->is_planning = true;
  lock.unlock();
  std::optional<BatchPlan> plan;
  try {
    plan = epoch->course->next();
  } catch (...) {
    plan.emplace().error = std::current_exception();
  }
  lock.lock();
  epoch->is_planning = false;
  if (epoch != epoch_) return;  // the consumer has left the epoch
  epoch->has_ended = epoch->has_ended || !plan || plan->error;
  if (plan) {
    auto job = std::make_shared<Job>();
    job->epoch = epoch->number;
    job->error = plan->error;
    job->is_ready = plan->error != nullptr;
    job->plan = std::move(*plan);
    jobs_.push_back(std::move(job));
  }
  work_ready_.notify_all();
  batch_ready_.notify_one();
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
    work_ready_.wait(lock, [&] { return stopping_ || (job = claimable()) || can_plan(); });
    if (stopping_) return;
    if (!job) {
      plan(lock);
      continue;
    }
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

}  // namespace booster
