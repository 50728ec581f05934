#include "core/data/gpu/gpu_image_cache.h"

#include "core/tensor/memory/allocator.h"
#include "kernels/device/cuda_module.h"
#include "kernels/device/memory.h"
#include "platform/error.h"
#include "platform/warn.h"

#include <algorithm>
#include <utility>

namespace booster {
namespace {

constexpr size_t slab_bytes = size_t{32} << 20;
constexpr size_t image_alignment = 16;

size_t aligned_image(size_t bytes) {
  return (bytes + image_alignment - 1) / image_alignment * image_alignment;
}

}  // namespace

GpuImageCache::GpuImageCache(Device gpu, size_t budget_bytes, size_t files)
    : gpu_(gpu), budget_(budget_bytes), left_(budget_bytes), entries_(files) {}

// Frees the memory; the allocator reuses it only for work queued after the kernels that read it.
GpuImageCache::~GpuImageCache() {
  for (const Slab& slab : slabs_) release(gpu_, slab.data, slab.bytes, MemoryTag::data);
}

std::optional<GpuImageCache::Kept> GpuImageCache::find(size_t file) const {
  std::lock_guard lock(mutex_);
  const Entry& entry = entries_[file];
  if (!entry.is_there) return std::nullopt;
  return Kept{entry.address, entry.width, entry.height, entry.channels};
}

std::optional<GpuImageCache::Kept> GpuImageCache::offer(size_t file, const Image& image) {
  std::shared_ptr<kernels::Event> from;
  Entry entry;
  {
    std::lock_guard lock(mutex_);
    entry = entries_[file];
    if (entry.is_there) return Kept{entry.address, entry.width, entry.height, entry.channels};
    if (entry.address) return std::nullopt;
    entry = {take(aligned_image(image.bytes())), image.width(), image.height(), image.channels()};
    if (!entry.address) return std::nullopt;
    entries_[file] = entry;
    from = slabs_.back().from;
  }
  // Copies on this thread's own stream, which does not wait for work that the training has queued.
  kernels::cuda_module_for(gpu_).run_beside(gpu_.index, [&] {
    from->precede(nullptr);
    kernels::device_copy(entry.address, gpu_, image.data(), {}, image.bytes());
  });
  std::lock_guard lock(mutex_);
  entries_[file].is_there = true;
  ++kept_;
  return Kept{entry.address, entry.width, entry.height, entry.channels};
}

// Returns null if there is no room.
uint8_t* GpuImageCache::take(size_t bytes) {
  const bool fits = !slabs_.empty() && slabs_.back().bytes - slabs_.back().used >= bytes;
  if (!fits && !add_slab(bytes)) {
    say_full();
    return nullptr;
  }
  Slab& slab = slabs_.back();
  return slab.data + std::exchange(slab.used, slab.used + bytes);
}

// Adds a slab. Returns false beyond the budget, or if the GPU has no more memory; then it never
// tries again.
bool GpuImageCache::add_slab(size_t least) {
  const size_t bytes = std::min(std::max(least, slab_bytes), left_);
  if (bytes < least) return false;
  try {
    void* data = allocate(gpu_, bytes, MemoryTag::data);
    slabs_.push_back({static_cast<uint8_t*>(data), bytes, 0,
                      kernels::cuda_module_for(gpu_).mark(gpu_.index, nullptr)});
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::failed) throw;
    left_ = 0;
    return false;
  }
  left_ -= bytes;
  return true;
}

void GpuImageCache::say_full() {
  if (std::exchange(has_said_full_, true)) return;
  size_t bytes = 0;
  for (const Slab& slab : slabs_) bytes += slab.bytes;
  warn(
      fmt::format("images: no more space on cuda:{}; it keeps {} of {} images, in {} of at most {} "
                  "MiB; the others come from the host",
                  int{gpu_.index}, kept_, entries_.size(), bytes >> 20, budget_ >> 20));
}

}  // namespace booster
