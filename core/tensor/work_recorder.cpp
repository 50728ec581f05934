#include "core/tensor/work_recorder.h"

#include "core/tensor/memory/allocator.h"
#include "kernels/catalogue.h"

#include <utility>

namespace booster {

std::atomic<int> recording_threads{0};

namespace {
thread_local WorkRecorder* recorder = nullptr;
}  // namespace

void note_use(const Reference<Storage>& storage) {
  if (recorder) recorder->used(storage);
}
void note_change(const Reference<Storage>& storage) {
  if (recorder) recorder->changed(storage);
}

WorkRecorder::WorkRecorder() {
  recorder = this;
  ++recording_threads;
}
WorkRecorder::~WorkRecorder() {
  let_go();
  --recording_threads;
  recorder = nullptr;
}
WorkRecorder* WorkRecorder::current() { return recorder; }

void WorkRecorder::made(Storage& storage) {
  const std::lock_guard lock(mutex_);
  storage.maker = this;
  made_.insert(&storage);
}

void WorkRecorder::gone(Storage& storage) {
  const std::lock_guard lock(mutex_);
  made_.erase(&storage);
}

void WorkRecorder::used(const Reference<Storage>& storage) {
  if (storage->maker != this) used_.try_emplace(storage.get(), storage);
}

void WorkRecorder::changed(const Reference<Storage>& storage) {
  if (storage->maker != this) changed_.try_emplace(storage.get(), storage);
}

// Defers a check. Keeps the maximum, because a later replay may find nothing after an earlier one
// did.
void WorkRecorder::put_off_check(const Tensor& found, std::function<void(int64_t)> raise) {
  const Tensor worst = [&] {
    const PrivateBlocks::Pause common;
    return empty_like(found);
  }();
  kernels::on(found.device())
      .binary(kernels::BinaryOp::maximum, worst.view(), worst.view(), found.view());
  checks_.push_back({worst, std::move(raise)});
}

RecordedMemory WorkRecorder::take_memory() {
  const std::lock_guard lock(mutex_);
  RecordedMemory memory;
  for (auto& entry : used_) memory.used.push_back(std::move(entry.second));
  for (auto& entry : changed_) memory.changed.push_back(std::move(entry.second));
  for (Storage* storage : made_) memory.changed.push_back(Reference<Storage>(storage));
  return memory;
}

void WorkRecorder::let_go() {
  const std::lock_guard lock(mutex_);
  for (Storage* storage : made_) storage->maker = nullptr;
  made_.clear();
}

}  // namespace booster
