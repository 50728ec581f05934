#include "core/tensor/recorder.h"

#include "core/tensor/memory/allocator.h"
#include "kernels/catalogue.h"

#include <utility>

namespace booster {

std::atomic<int> recording_threads{0};

namespace {
thread_local Recorder* recorder = nullptr;
}  // namespace

void note_use(const Reference<Storage>& storage) {
  if (recorder) recorder->used(storage);
}
void note_change(const Reference<Storage>& storage) {
  if (recorder) recorder->changed(storage);
}

Recorder::Recorder() {
  recorder = this;
  ++recording_threads;
}
Recorder::~Recorder() {
  let_go();
  --recording_threads;
  recorder = nullptr;
}
Recorder* Recorder::current() { return recorder; }

void Recorder::made(Storage& storage) {
  const std::lock_guard lock(mutex_);
  storage.maker = this;
  made_.insert(&storage);
}

void Recorder::gone(Storage& storage) {
  const std::lock_guard lock(mutex_);
  made_.erase(&storage);
}

void Recorder::used(const Reference<Storage>& storage) {
  if (storage->maker != this) used_.try_emplace(storage.get(), storage);
}

void Recorder::changed(const Reference<Storage>& storage) {
  if (storage->maker != this) changed_.try_emplace(storage.get(), storage);
}

// The largest, since a later replay may find nothing where an earlier one did.
void Recorder::put_off_check(const Tensor& found, std::function<void(int64_t)> raise) {
  const Tensor worst = [&] {
    const PrivateBlocks::Pause common;
    return empty_like(found);
  }();
  kernels::on(found.device())
      .binary(kernels::BinaryOp::maximum, worst.view(), worst.view(), found.view());
  checks_.push_back({worst, std::move(raise)});
}

RecordedMemory Recorder::take_memory() {
  const std::lock_guard lock(mutex_);
  RecordedMemory memory;
  for (auto& entry : used_) memory.used.push_back(std::move(entry.second));
  for (auto& entry : changed_) memory.changed.push_back(std::move(entry.second));
  for (Storage* storage : made_) memory.changed.push_back(Reference<Storage>(storage));
  return memory;
}

void Recorder::let_go() {
  const std::lock_guard lock(mutex_);
  for (Storage* storage : made_) storage->maker = nullptr;
  made_.clear();
}

}  // namespace booster
