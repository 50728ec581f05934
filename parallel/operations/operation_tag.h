// OperationTag: which of several things alike an operation is for.
//
// Ranks that go through their buckets, units or optimizers in different orders make calls of one
// kind, size and dtype, and would add up what does not belong together. So do those that train two
// models by turns, or have gradients of other parameters. Their tags differ, so it is an error that
// names both.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace booster {

// Goes between ranks as it lies in memory.
struct OperationTag {
  enum Kind : uint32_t { none, bucket, unit, optimizer };
  Kind kind = none;
  uint32_t number = 0;
  uint32_t training = 0;  // which of those that the ranks have begun
  uint32_t absent = 0;    // a hash of the members of a bucket that have nothing to give; 0: all do

  static OperationTag of(Kind kind, int64_t number, uint32_t training = 0) {
    return {.kind = kind, .number = static_cast<uint32_t>(number), .training = training};
  }
  OperationTag without(uint32_t members) const {
    OperationTag tag = *this;
    tag.absent = members;
    return tag;
  }
  // "bucket 3", "bucket 3 of training 2", "bucket 3 without some gradients"; "" for none.
  std::string text() const {
    constexpr const char* names[] = {"", "bucket", "unit", "optimizer"};
    if (kind == none) return "";
    return fmt::format("{} {}{}{}", names[kind], number,
                       training == 0 ? "" : fmt::format(" of training {}", training + 1),
                       absent == 0 ? "" : fmt::format(" without some gradients ({:08x})", absent));
  }
  friend bool operator==(const OperationTag&, const OperationTag&) = default;
};

// The members that are absent, added in their order.
class AbsentMembers {
 public:
  void add(int64_t member) {
    hash_ = (hash_ ^ static_cast<uint32_t>(member + 1)) * 0x01000193;  // FNV-1a
    any_ = true;
  }
  uint32_t hash() const { return any_ ? hash_ | 1 : 0; }

 private:
  uint32_t hash_ = 0x811c9dc5;
  bool any_ = false;
};

}  // namespace booster
