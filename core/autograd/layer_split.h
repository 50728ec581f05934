// A weight of which this rank holds a part (tensor parallelism), and what its layer does besides.
//
// The mark is on the weight, not on a module: `linear`, `linear_gelu` and `embedding` look for it,
// so that fused functions, tied weights and modules of any class follow. All members of the group
// call these functions in the same order.
#pragma once

#include "core/tensor/element_range.h"
#include "core/tensor/tensor.h"

#include <memory>

namespace booster {

class LayerSplit {
 public:
  // What becomes of the product with this rank's part of a weight.
  enum class Result : uint8_t {
    part,     // it stays a piece of the result's features, as the bias is of the whole bias
    whole,    // the same, and then the pieces of all ranks make the result
    spread,   // the same, but in training only when something reads the whole of it
    summand,  // the result is the sum of all ranks', and the bias is added to it once
  };
  virtual ~LayerSplit() = default;
  virtual Result result() const = 0;

  // --- linear, on the tape
  // The input as this rank's part of the weight reads it.
  virtual Tensor to_part(const Tensor& x) const = 0;
  // The result, from the product with this part.
  virtual Tensor from_part(const Tensor& y) const = 0;

  // --- embedding
  // The rows of the table that are here, out of how many.
  virtual ElementRange rows() const = 0;
  virtual int64_t all_rows() const = 0;
  // The result, from rows that are 0 where the entry is on another rank; on the tape.
  virtual Tensor sum_of_rows(const Tensor& y) const = 0;
};

// From now on `weight` is a part of a layer's. Null: it is whole.
void set_layer_split(const Tensor& weight, std::shared_ptr<const LayerSplit> split);
// Null if it is whole.
const LayerSplit* layer_split(const Tensor& weight);
std::shared_ptr<const LayerSplit> shared_layer_split(const Tensor& weight);

}  // namespace booster
