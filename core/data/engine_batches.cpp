// The memory of batches: allocated, made of samples, and copied to the training's device.
#include "core/data/collate.h"
#include "core/data/engine.h"
#include "platform/error.h"

namespace booster {
namespace {

// Stream numbers of an epoch from here on are of batches. Those of samples are smaller.
constexpr uint64_t batch_streams = uint64_t{1} << 63;

Shape batch_shape(int64_t n, const Shape& sample) {
  Shape shape = sample;
  shape.insert(0, n);
  return shape;
}

}  // namespace

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
    if (!job.is_collated) job.samples.resize(job.indices.size());
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
