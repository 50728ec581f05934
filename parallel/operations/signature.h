// Signature: describes a rank's next operation; it must be equal on all ranks of a collective.
#pragma once

#include "parallel/operations/operation.h"
#include "parallel/operations/operation_tag.h"
#include "parallel/operations/reduction.h"

#include <cstdint>
#include <string>

namespace booster {

enum class Collective : uint8_t {
  all_reduce,
  broadcast,
  all_gather,
  reduce_scatter,
  all_to_all,
  point_to_point,
  barrier
};

// Sent between ranks as its bytes in memory.
struct Signature {
  uint64_t sequence = 0;
  int64_t count = 0;
  OperationTag tag = {};
  int32_t root = 0;
  Collective operation = Collective::barrier;
  CollectiveOp reduction = CollectiveOp::sum;
  DType dtype = DType::f32;
  uint8_t is_direct = 0;  // 1: this rank could send from GPU to GPU; ranks may differ in it

  // `data` is the rank's input or output, whichever is smaller; `root` is a rank of the world.
  static Signature of(Collective operation, const Buffer& data,
                      CollectiveOp reduction = CollectiveOp::sum, int root = 0) {
    return {.count = data.count,
            .root = root,
            .operation = operation,
            .reduction = reduction,
            .dtype = data.dtype};
  }
  Signature directly(bool possible) const {
    Signature same = *this;
    same.is_direct = possible;
    return same;
  }
  bool is_same(const Signature& other) const {
    return sequence == other.sequence && count == other.count && tag == other.tag &&
           root == other.root && operation == other.operation && reduction == other.reduction &&
           dtype == other.dtype;
  }
  // Returns "all_reduce of 400 f32 by sum (call 7)", "all_reduce of 400 f32 by sum (call 7, bucket
  // 3)"
  std::string text() const;
};

}  // namespace booster
