// OperationTag: distinguishes operations of the same form by their purpose. Plain values.
//
// Ranks may go through their buckets, units or optimizers in different orders. Their calls have the
// same kind, size and dtype, so they would add up unrelated data. The same holds for ranks that
// alternate between two models, or that have gradients of different parameters. Their tags differ,
// so the call throws an error that names both.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

namespace booster {

// Sent between ranks as its bytes in memory.
struct OperationTag {
  enum Kind : uint32_t { none, bucket, unit, optimizer };
  Kind kind = none;
  uint32_t number = 0;
  uint32_t training = 0;  // sequence number of the training on these ranks
  uint32_t absent = 0;    // hash of a bucket's members without data; 0: all have data

  static OperationTag of(Kind kind, int64_t number, uint32_t training = 0) {
    return {.kind = kind, .number = static_cast<uint32_t>(number), .training = training};
  }
  OperationTag without(uint32_t members) const {
    OperationTag tag = *this;
    tag.absent = members;
    return tag;
  }
  // Returns "bucket 3", "bucket 3 of training 2", "bucket 3 without some gradients"; "" for none.
  std::string text() const {
    constexpr const char* names[] = {"", "bucket", "unit", "optimizer"};
    if (kind == none) return "";
    return fmt::format("{} {}{}{}", names[kind], number,
                       training == 0 ? "" : fmt::format(" of training {}", training + 1),
                       absent == 0 ? "" : fmt::format(" without some gradients ({:08x})", absent));
  }
  friend bool operator==(const OperationTag&, const OperationTag&) = default;
};

// The absent members of a bucket, added in order.
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
