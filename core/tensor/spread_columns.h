// Tensors whose columns (the last dimension) are spread over ranks. Shape and dtype are the whole
// tensor's, which has no memory at first. The first read makes the ranks gather it, and it becomes
// an ordinary tensor. Code that can work on parts queries this rank's part first.
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
  // Returns the most columns that any rank has.
  virtual int64_t most() const = 0;
  // Gathers all columns from the parts of all ranks.
  virtual Tensor gathered(const Tensor& part) const = 0;
  // Stacks the x of all ranks, of one shape, along a new first dimension.
  virtual Tensor everybodys(const Tensor& x) const = 0;
};

struct SpreadColumns {
  Tensor part;  // undefined: the tensor is not spread, or no longer spread
  std::shared_ptr<const ColumnRanks> ranks;
};

// Makes a spread tensor, off the tape. The part is dense; do not write it afterwards.
Tensor spread_over_ranks(const SpreadColumns& columns);
// Returns x's spread columns until something reads or writes x. The part has x's shape except for
// the columns. Works for views that only split or merge dimensions before the last.
SpreadColumns spread_columns(const Tensor& x);

}  // namespace booster
