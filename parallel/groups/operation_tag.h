// OperationTag: which of several things alike an operation is for.
//
// Ranks that go through their buckets, units or optimizers in different orders make calls of one
// kind, size and dtype, and would add up what does not belong together. Their tags differ, so it is
// an error that names both.
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

  static OperationTag of(Kind kind, int64_t number) {
    return {kind, static_cast<uint32_t>(number)};
  }
  // "bucket 3"; "" for none.
  std::string text() const {
    constexpr const char* names[] = {"", "bucket", "unit", "optimizer"};
    return kind == none ? "" : fmt::format("{} {}", names[kind], number);
  }
  friend bool operator==(const OperationTag&, const OperationTag&) = default;
};

}  // namespace booster
