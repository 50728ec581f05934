// Tensors whose columns, the last dimension, lie over ranks: each has some of them. Shape and dtype
// are those of the whole, which has no memory so far; when something reads it, the ranks put it
// together, and it is a tensor like any other. What can work on parts asks for its own first.
#pragma once

#include "core/tensor/element_range.h"
#include "core/tensor/tensor.h"

#include <memory>

namespace booster {

// The ranks that have the columns. All of them call these functions in the same order.
class ColumnRanks {
 public:
  virtual ~ColumnRanks() = default;
  // This rank's, out of all().
  virtual ElementRange columns() const = 0;
  virtual int64_t all() const = 0;
  // All columns, from everybody's part.
  virtual Tensor gathered(const Tensor& part) const = 0;
  // Everybody's x, of one shape, one behind the other along a new first dimension.
  virtual Tensor everybodys(const Tensor& x) const = 0;
};

struct SpreadColumns {
  Tensor part;  // undefined: the tensor is not spread, or no longer
  std::shared_ptr<const ColumnRanks> ranks;
};

// Off the tape. The part is dense, and nobody writes to it from now on.
Tensor spread_over_ranks(const SpreadColumns& columns);
// What x was spread from, with x's shape but for the columns, as long as nothing has read or
// written it. Also of views that only divide or join dimensions before the last.
SpreadColumns spread_columns(const Tensor& x);

}  // namespace booster
