// Memory by purpose: how much each purpose uses.
//
// New tensors get the thread's current tag, which scopes change. A tensor whose purpose becomes
// known later (a kept gradient) can be retagged. A scope costs two thread-local writes. Counts are
// bytes of all devices together. Thread-safe.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace booster {

class Tensor;

enum class MemoryTag : uint8_t {
  other,
  data,        // batches of the loader
  parameters,  // and buffers
  copies,      // 16-bit copies of parameters
  gradients,   // of parameters
  masters,     // f32 masters of 16-bit parameters
  optimizer_state,
  workspace,    // made during backward and freed after it
  activations,  // made by forward; further tags stand for kinds of modules
};
inline constexpr int memory_tags = 128;

// Returns the tag for activations of this kind of module, such as "VitMlp". Once tags run out,
// further kinds share `activations`.
MemoryTag activation_tag(const std::string& kind);
// Returns a name such as "optimizer state"; for activations, the kind of module. Valid until the
// program ends.
const char* name_of(MemoryTag tag);

MemoryTag current_memory_tag();
// Moves the tensor's whole storage to another tag.
void set_memory_tag(const Tensor& x, MemoryTag tag);

class MemoryScope {
 public:
  explicit MemoryScope(MemoryTag tag);
  ~MemoryScope();
  MemoryScope(const MemoryScope&) = delete;
  MemoryScope& operator=(const MemoryScope&) = delete;

 private:
  MemoryTag before_;
};

// --- use

struct MemoryUse {
  std::string tag;  // "parameters", "activations of VitMlp"
  int64_t live_bytes = 0;
  int64_t peak_bytes = 0;  // of this tag alone, since reset_peak_bytes()
};

// Returns the tags that have held memory, largest peak first. "workspace" includes the kernels'
// scratch.
std::vector<MemoryUse> memory_use();
// Returns the same as a table, with the sums and the allocator's cached bytes.
std::string memory_report();

struct AllocatorStats {
  int64_t live_bytes = 0;          // in use now
  int64_t peak_bytes = 0;          // maximum of bytes in use since reset_peak_bytes()
  int64_t reserved_bytes = 0;      // taken from the system: live plus cached
  int64_t system_allocations = 0;  // allocations from the system since the start
};
AllocatorStats allocator_stats();
// Makes the present use the peak, of each tag too.
void reset_peak_bytes();
// Returns cached blocks to the system.
void empty_cache();

// Returns the number of NVIDIA GPUs that this process can use: 0 without a driver, or in a build
// without CUDA. Their names are Device::cuda(0), Device::cuda(1) ...
int cuda_device_count();

}  // namespace booster
