// What a rank is about to do together with others: ranks tell each other before any data moves.
#pragma once

#include "parallel/groups/buffer.h"
#include "parallel/groups/reduction.h"

#include <cstdint>
#include <string>

namespace booster {

enum class Operation : uint8_t {
  all_reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  all_to_all,
  point_to_point,
  barrier
};

// Sent as its bytes, so all of them count.
struct Signature {
  uint64_t sequence = 0;
  int64_t count = 0;
  int32_t root = 0;
  Operation operation = Operation::barrier;
  CollectiveOp reduction = CollectiveOp::sum;
  DType dtype = DType::f32;
  uint8_t reserved = 0;

  static Signature of_message(const Buffer& data) {
    return {.count = data.count, .operation = Operation::point_to_point, .dtype = data.dtype};
  }
  friend bool operator==(const Signature&, const Signature&) = default;
  // "all_reduce of 100 f32 by sum (call 7)".
  std::string text() const;
};

}  // namespace booster
