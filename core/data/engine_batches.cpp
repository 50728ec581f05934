// The memory of batches: allocated, made of samples, and copied to the training's device.
#include "core/data/collate.h"
#include "core/data/engine.h"
#include "platform/error.h"
#include "platform/trace.h"

#include <cstring>

namespace booster {
namespace {

// Stream numbers of an epoch from here on are of batches. Those of samples are smaller.
constexpr uint64_t batch_streams = uint64_t{1} << 63;

Shape batch_shape(int64_t n, const Shape& sample) {
  Shape shape = sample;
  shape.insert(0, n);
  return shape;
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

Sample Engine::load(const Job& job, int64_t position) const {
  const auto i = static_cast<size_t>(position);
  RandomStream random(options_.seed, job.epoch, job.plan.randoms[i]);
  if (!job.plan.makes.empty()) return job.plan.makes[i](random);
  return dataset_->load_in_batch(job.plan.numbers[i], job.plan.numbers, random);
}

// Loads one sample into its slot. Never throws: errors are kept for the consumer.
void Engine::fill(Job& job, int64_t position) {
  const MemoryScope memory(MemoryTag::data);
  const kernels::TraceScope span("load sample", kernels::SpanKind::loader);
  try {
    const Sample sample = load(job, position);
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

// Makes the batch of the samples that are not bad.
void Engine::collate(Job& job) const {
  std::vector<Sample> good;
  for (std::optional<Sample>& sample : job.samples)
    if (sample) good.push_back(std::move(*sample));
  if (good.empty()) return;
  job.batch = options_.collate ? options_.collate(good) : stacked(good);
  check(!job.batch.inputs().empty(), "DataLoader: collate gave a batch without an input");
  job.samples.clear();
}

Tensor Engine::to_fill(const Shape& shape, DType dtype) {
  return staging_ ? staging_->to_fill(shape, dtype) : empty(shape, {.dtype = dtype});
}

// Allocates the batch: its first sample determines the shape, and whether a GPU assembles it.
void Engine::reserve(Job& job, const Sample& sample) {
  std::lock_guard lock(mutex_);
  Batch& batch = job.batch;
  if (job.is_collated || (!batch.label.defined() && collates(sample))) {
    check(collates(sample),
          "DataLoader: samples of one batch differ in kind; got named ones and others");
    if (!job.is_collated) job.samples.resize(job.plan.numbers.size());
    job.is_collated = true;
    return;
  }
  check(!sample.is_named(),
        "DataLoader: samples of one batch differ in kind; got named ones and others");
  if (!batch.label.defined()) {
    job.shape = sample.shape();
    if (staging_ && sample.lazy())
      job.images.emplace(options_.device, job.size());
    else
      batch.image = to_fill(batch_shape(job.size(), job.shape), sample.dtype());
    batch.label = to_fill(batch_shape(job.size(), sample.label().shape()), sample.label().dtype());
    return;
  }
  check(!job.images || sample.lazy(),
        "DataLoader: samples of one batch differ in kind; got images and a tensor, want either");
  const DType dtype = job.images ? DType::f32 : batch.image.dtype();
  check(sample.dtype() == dtype && sample.label().dtype() == batch.label.dtype() &&
            batch_shape(job.size(), sample.label().shape()) == batch.label.shape(),
        "DataLoader: samples of one batch differ in dtype or in the shape of their labels; got {} "
        "and {}, want the same for all",
        sample.label().shape(), batch.label.shape());
  check(sample.shape() == job.shape,
        "DataLoader: samples of one batch differ in shape; got {} for '{}' and {} for another, "
        "want {}",
        sample.shape(), sample.name(), job.shape,
        sample.lazy() ? "a transform that makes them equal (RandomResizedCrop or CenterCrop, "
                        "Gray2RGB)"
                      : "equal shapes, or .collate = pad_to_longest(...) (core/data/loader.h)");
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
      bad_images_[job.plan.numbers[static_cast<size_t>(position)]] = bad.what();
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

// Copies the batch to the training's device and applies the batch transform.
Batch Engine::given_out(const Job& job, Batch batch, LoaderState at) const {
  if (staging_ && job.is_collated) {
    const auto there = [&](const Tensor& x) { return x.defined() ? x.to(options_.device) : x; };
    batch = {there(batch.image), there(batch.label), batch.named_inputs.map(there),
             batch.named_targets.map(there)};
  } else if (staging_)
    batch = {job.images ? job.images->tensor(&*staging_) : staging_->on_device(batch.image),
             staging_->on_device(batch.label)};
  if (!options_.batch_transform) return batch;
  const auto number = static_cast<uint64_t>(at.batch * options_.world_size + options_.rank);
  RandomStream random(options_.seed, at.epoch, batch_streams | number);
  return options_.batch_transform->apply(std::move(batch), at.epoch, random);
}

}  // namespace booster
