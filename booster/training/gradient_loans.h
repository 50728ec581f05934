// GradientLoans: provides grad() of boosted parameters to programs.
//
// Gradients in memory still have the factor of the loss scale, and lack the factor of a clip by
// norm. The step applies both as it reads them, which saves a pass over memory. After a clip or
// step, until the next backward pass, the program reads a copy with both applied: the true
// gradient, in at least f32. Before that it reads memory itself, as in torch before `unscale_`.
//
// Reading changes nothing, so one rank may read alone. If the program writes to a copy
// (`p.grad().mul_(2)`), GradientLoans writes it back before memory is used again. For the thread
// that trains.
#pragma once

#include "mixed_precision/interface/precision.h"

#include <memory>
#include <unordered_map>
#include <vector>

namespace booster {

class GradientLoans {
 public:
  GradientLoans(std::shared_ptr<const Precision> precision, const Optimizers& optimizers);
  // Assigns these parameters to one of the optimizers.
  void add(const Optimizer& optimizer, const Parameters& parameters);

  // Switch what programs read of this optimizer. open: true gradients; close: memory.
  void open(const Optimizer& optimizer);
  void close(const Optimizer& optimizer);
  // Returns the gradient of a leaf that programs read.
  Tensor read(const Tensor& leaf, const Tensor& in_memory);
  // Discards the copies; writes those that the program changed back to memory.
  void settle();

 private:
  struct Loan {
    size_t optimizer;
    Tensor in_memory, copy = {};
    uint32_t version_in_memory = 0, version = 0;  // when the copy was made
    Tensor factor = {};                           // of the strategy's unscaling; undefined: 1
  };
  struct Entry {
    Optimizer optimizer;
    bool is_open = false;
  };
  size_t index_of(const Optimizer& optimizer) const;
  Loan lend(size_t optimizer, const Tensor& in_memory) const;

  std::shared_ptr<const Precision> precision_;
  std::vector<Entry> entries_;
  std::unordered_map<const TensorBody*, size_t> optimizer_of_;  // by parameter
  std::vector<Loan> loans_;
};

}  // namespace booster
