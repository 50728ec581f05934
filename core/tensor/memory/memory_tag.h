// What memory is for. Each thread has a current tag, which new tensors get; scopes change it. A
// tensor whose purpose becomes known later (a gradient that is kept) can be retagged.
// memory_report.h reports the sums. A scope costs two thread-local writes; thread-safe.
#pragma once

#include <cstdint>
#include <string>

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
  workspace,    // made during backward and gone after it
  activations,  // made by forward; the tags from here on stand for kinds of modules
};
inline constexpr int memory_tags = 128;

// Returns the tag for activations of this kind of module, such as "VitMlp". Once tags run out,
// further kinds share `activations`.
MemoryTag activation_tag(const std::string& kind);
// Returns "optimizer state", say, or the kind of module for activations. Valid until the program
// ends.
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

}  // namespace booster
