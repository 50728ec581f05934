// A weight of which this rank holds a part (tensor parallelism), and the extra work of its layer.
//
// The mark is on the weight, not on a module. `linear`, `linear_gelu` and `embedding` look for it,
// so it works for fused functions, tied weights and modules of any class. All members of the group
// call these functions in the same order.
#pragma once

#include "core/tensor/shape.h"
#include "core/tensor/tensor.h"

#include <memory>

namespace booster {

class LayerSplit {
 public:
  // Ways in which the product with this rank's part of a weight becomes the result.
  enum class Result : uint8_t {
    part,     // it stays this rank's features of the result; the bias is a part too
    whole,    // as part, then all ranks' parts are gathered
    spread,   // as whole, but training gathers them only when an op reads the whole
    summand,  // the result is the sum over all ranks, and the bias is added to it once
  };
  virtual ~LayerSplit() = default;
  virtual Result result() const = 0;

  // --- linear, on the tape
  // Returns the input for this rank's part of the weight.
  virtual Tensor to_part(const Tensor& x) const = 0;
  // Returns the result, from the product with this part.
  virtual Tensor from_part(const Tensor& y) const = 0;

  // --- embedding
  // Return the rows of the table on this rank, and the number of all rows.
  virtual ElementRange rows() const = 0;
  virtual int64_t all_rows() const = 0;
  // Returns the result, from rows that are 0 where the entry is on another rank; on the tape.
  virtual Tensor sum_of_rows(const Tensor& y) const = 0;
};

// Marks `weight` as a part of a layer's weight. Null: it is whole.
void set_layer_split(const Tensor& weight, std::shared_ptr<const LayerSplit> split);
// Throws for a weight with a mark, and for a recorded view or cast of it: `call` does not exchange
// parts, so its result would silently be this rank's.
void check_no_layer_split(const char* call, const Tensor& x);
// Return the mark; null if the weight is whole.
const LayerSplit* layer_split(const Tensor& weight);
std::shared_ptr<const LayerSplit> shared_layer_split(const Tensor& weight);

}  // namespace booster
