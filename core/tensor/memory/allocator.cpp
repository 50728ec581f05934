#include "core/tensor/memory/allocator.h"

#include "core/tensor/memory/memory_report.h"
#include "kernels/device/cuda_module.h"
#include "kernels/device/memory.h"
#include "kernels/host/recording.h"
#include "platform/error.h"

#include <array>
#include <bit>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

namespace booster {
namespace {

// Size classes: eight steps per power of two, so at most 1/8 of a block is wasted.
constexpr size_t smallest = 64;
constexpr int steps_log2 = 3;
constexpr int class_count = (64 - 6) << steps_log2;

int class_of(size_t bytes) {
  if (bytes <= smallest) return 0;
  const int log2 = std::bit_width(bytes - 1) - 1;  // bytes in (2^log2, 2^(log2+1)]
  const size_t step = (bytes - 1 - (size_t{1} << log2)) >> (log2 - steps_log2);
  return ((log2 - 6) << steps_log2) + static_cast<int>(step) + 1;
}

size_t bytes_of(int size_class) {
  if (size_class == 0) return smallest;
  const int log2 = ((size_class - 1) >> steps_log2) + 6;
  const size_t step = (size_class - 1) & ((1 << steps_log2) - 1);
  return (size_t{1} << log2) + ((step + 1) << (log2 - steps_log2));
}

using FreeLists = std::array<std::vector<void*>, class_count>;

}  // namespace

struct PrivateBlocks::Lists {
  Device device;
  FreeLists free;
};

namespace {

using PrivateLists = PrivateBlocks::Lists;
thread_local PrivateLists* private_lists = nullptr;  // of the innermost Scope; null: common blocks

class Pool {
 public:
  void* take(Device device, size_t bytes, MemoryTag tag) {
    const int size_class = class_of(bytes);
    const size_t rounded = bytes_of(size_class);
    std::lock_guard lock(mutex_);
    OfDevice& own = of(device);
    const bool is_private = private_lists && private_lists->device == device;
    PrivateLists* owner = is_private ? private_lists : nullptr;
    auto& free_blocks = (owner ? owner->free : own.lists)[size_class];
    void* data = nullptr;
    if (!free_blocks.empty()) {
      data = free_blocks.back();
      free_blocks.pop_back();
    } else {
      data = from_system(device, rounded, owner);
    }
    stats_.live_bytes += rounded;
    if (stats_.live_bytes > stats_.peak_bytes) stats_.peak_bytes = stats_.live_bytes;
    count(own, tag, static_cast<int64_t>(rounded));
    return data;
  }

  void give(Device device, void* data, size_t bytes, MemoryTag tag) {
    const int size_class = class_of(bytes);
    std::lock_guard lock(mutex_);
    OfDevice& own = of(device);
    PrivateLists* owner = owner_of(data);
    (owner ? owner->free : own.lists)[size_class].push_back(data);
    stats_.live_bytes -= bytes_of(size_class);
    count(own, tag, -static_cast<int64_t>(bytes_of(size_class)));
  }

  void retag(Device device, size_t bytes, MemoryTag from, MemoryTag to) {
    const auto rounded = static_cast<int64_t>(bytes_of(class_of(bytes)));
    std::lock_guard lock(mutex_);
    count(of(device), from, -rounded);
    count(of(device), to, rounded);
  }

  void empty() {
    std::lock_guard lock(mutex_);
    empty_locked();
  }

  void make_common(PrivateLists& lists) {
    std::lock_guard lock(mutex_);
    std::erase_if(owners_, [&](const auto& entry) { return entry.second == &lists; });
    FreeLists& common = of(lists.device).lists;
    for (int i = 0; i < class_count; ++i)
      common[i].insert(common[i].end(), lists.free[i].begin(), lists.free[i].end());
  }

  AllocatorStats stats() {
    std::lock_guard lock(mutex_);
    return stats_;
  }
  TaggedBytes by_tag() {
    std::lock_guard lock(mutex_);
    return by_tag_;
  }
  int64_t live(Device device, MemoryTag tag) {
    std::lock_guard lock(mutex_);
    return of(device).live[static_cast<int>(tag)];
  }
  void reset_peak() {
    std::lock_guard lock(mutex_);
    stats_.peak_bytes = stats_.live_bytes;
    for (TagBytes& use : by_tag_) use.peak = use.live;
  }

 private:
  struct OfDevice {
    Device device;
    FreeLists lists;
    std::array<int64_t, memory_tags> live = {};  // bytes by tag
  };

  void count(OfDevice& own, MemoryTag tag, int64_t bytes) {
    own.live[static_cast<int>(tag)] += bytes;
    TagBytes& use = by_tag_[static_cast<int>(tag)];
    use.live += bytes;
    if (use.live > use.peak) use.peak = use.live;
  }

  OfDevice& of(Device device) {
    for (auto& entry : devices_)
      if (entry->device == device) return *entry;
    devices_.push_back(new OfDevice{device, {}});
    return *devices_.back();
  }

  PrivateLists* owner_of(void* data) const {
    if (owners_.empty()) return nullptr;
    const auto found = owners_.find(data);
    return found == owners_.end() ? nullptr : found->second;
  }

  // Allocates from the system. Does not free memory while work is recorded, because freeing would
  // wait for the device.
  void* from_system(Device device, size_t rounded, PrivateLists* owner) {
    void* data = kernels::device_allocate(device, rounded);
    if (!data && !kernels::is_recording()) {
      empty_locked();
      data = kernels::device_allocate(device, rounded);
    }
    if (!data)
      fail_run(
          "memory: the system has no more memory; got a request of {} MB with {} MB in use, want a "
          "smaller batch, a smaller model or 16-bit precision\n{}",
          rounded >> 20, stats_.live_bytes >> 20, out_of_memory_report(stats_, by_tag_));
    if (owner) owners_[data] = owner;
    ++stats_.system_allocations;
    stats_.reserved_bytes += rounded;
    return data;
  }

  void empty_locked() {
    for (auto& entry : devices_)
      for (int i = 0; i < class_count; ++i) {
        auto& blocks = entry->lists[i];
        for (void* block : blocks) kernels::device_free(entry->device, block);
        stats_.reserved_bytes -= static_cast<int64_t>(bytes_of(i) * blocks.size());
        blocks.clear();
      }
  }

  std::mutex mutex_;
  std::vector<OfDevice*> devices_;
  std::unordered_map<void*, PrivateLists*> owners_;  // of private blocks, free or in use
  AllocatorStats stats_;
  TaggedBytes by_tag_ = {};
};

// Returns the pool, which is never destroyed: tensors in static storage may be released after main.
Pool& pool() {
  static Pool* pool = new Pool;
  static const bool told = (kernels::on_shortage_of_device_memory(empty_cache), true);
  (void)told;
  return *pool;
}

}  // namespace

void* allocate(Device device, size_t bytes, MemoryTag tag) {
  return pool().take(device, bytes, tag);
}
void release(Device device, void* data, size_t bytes, MemoryTag tag) {
  pool().give(device, data, bytes, tag);
}
void retag(Device device, size_t bytes, MemoryTag from, MemoryTag to) {
  pool().retag(device, bytes, from, to);
}
AllocatorStats allocator_stats() { return pool().stats(); }
TaggedBytes tagged_bytes() { return pool().by_tag(); }
int64_t live_bytes(Device device, MemoryTag tag) { return pool().live(device, tag); }
void reset_peak_bytes() { pool().reset_peak(); }
void empty_cache() { pool().empty(); }

PrivateBlocks::PrivateBlocks(Device device) : lists_(new Lists{device, {}}) {}
PrivateBlocks::~PrivateBlocks() { pool().make_common(*lists_); }
PrivateBlocks::Scope::Scope(PrivateBlocks& blocks) { private_lists = blocks.lists_.get(); }
PrivateBlocks::Scope::~Scope() { private_lists = nullptr; }
PrivateBlocks::Pause::Pause() : before_(std::exchange(private_lists, nullptr)) {}
PrivateBlocks::Pause::~Pause() { private_lists = before_; }

}  // namespace booster
