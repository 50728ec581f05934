#include "core/tensor/memory/memory_report.h"

#include <algorithm>
#include <array>
#include <mutex>

namespace booster {
namespace {

thread_local MemoryTag current_tag = MemoryTag::other;

// Names by tag. A name never changes once it is set, so reading needs no lock.
class TagNames {
 public:
  MemoryTag add(const std::string& kind) {
    std::lock_guard lock(mutex_);
    const auto first = names_.begin() + static_cast<int>(MemoryTag::activations) + 1;
    const auto found = std::find(first, names_.begin() + count_, kind);
    if (found == names_.end()) return MemoryTag::activations;
    if (found == names_.begin() + count_) names_[count_++] = kind;
    return static_cast<MemoryTag>(found - names_.begin());
  }
  const char* operator[](MemoryTag tag) const { return names_[static_cast<int>(tag)].c_str(); }

 private:
  std::mutex mutex_;
  std::array<std::string, memory_tags> names_ = {"other",           "data",      "parameters",
                                                 "16-bit copies",   "gradients", "masters",
                                                 "optimizer state", "workspace", "activations"};
  int count_ = static_cast<int>(MemoryTag::activations) + 1;
};

// Returns the names, which are never destroyed: tensors in static storage may be released after
// main.
TagNames& tag_names() {
  static TagNames* names = new TagNames;
  return *names;
}

}  // namespace

MemoryTag activation_tag(const std::string& kind) { return tag_names().add(kind); }
const char* name_of(MemoryTag tag) { return tag_names()[tag]; }

MemoryTag current_memory_tag() { return current_tag; }

MemoryScope::MemoryScope(MemoryTag tag) : before_(current_tag) { current_tag = tag; }
MemoryScope::~MemoryScope() { current_tag = before_; }

}  // namespace booster
