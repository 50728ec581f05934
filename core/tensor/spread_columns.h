// Tensors whose columns, the last dimension, are spread over ranks: each rank has some of them.
// Shape and dtype are the whole tensor's, which has no memory at first. When something reads it,
// the ranks gather it, and it becomes an ordinary tensor. Code that can work on parts asks for this
// rank's part first.
#pragma once

#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

#include <memory>

namespace booster {

// The ranks that hold the columns. All of them call these functions in the same order.
class ColumnRanks {
 public:
  virtual ~ColumnRanks() = default;
  // Returns this rank's columns, out of all().
  virtual ElementRange columns() const = 0;
  virtual int64_t all() const = 0;
  // Gathers all columns from the parts of all ranks.
  virtual Tensor gathered(const Tensor& part) const = 0;
  // Stacks the x of all ranks, of one shape, along a new first dimension.
  virtual Tensor everybodys(const Tensor& x) const = 0;
};

struct SpreadColumns {
  Tensor part;  // undefined: the tensor is not spread, or no longer
  std::shared_ptr<const ColumnRanks> ranks;
};

// Works off the tape. The part is dense and must not be written from now on.
Tensor spread_over_ranks(const SpreadColumns& columns);
// Returns what x was spread from, as long as nothing has read or written it; the part has x's shape
// except for the columns. Works for views that only split or merge dimensions before the last.
SpreadColumns spread_columns(const Tensor& x);

}  // namespace booster
