// GradientLoans: what a program gets that reads grad() of a boosted parameter.
//
// Gradients in memory are multiplied by a loss scale, and not by the factor of a clip by norm: the
// step applies both as it reads them, so that no pass over memory is spent on either. From a clip
// or a step on, until the next backward pass that is for its optimizer, a program that looks gets a
// copy for which both are applied: the true gradient, in f32 at least. Before that it sees what is
// there, as in torch before `unscale_`. Looking changes nothing, so that one rank may look alone; a
// copy that was written into (`p.grad().mul_(2)`) is written back before memory is used again. For
// the thread that trains.
#pragma once

#include "mixed_precision/interface/precision.h"

#include <memory>
#include <unordered_map>
#include <vector>

namespace booster {

class GradientLoans {
 public:
  GradientLoans(std::shared_ptr<const Precision> precision, const Optimizers& optimizers);
  // These belong to one of the optimizers from now on.
  void add(const Optimizer& optimizer, const Parameters& parameters);

  // From now on a program sees this optimizer's true gradients, or what is in memory.
  void open(const Optimizer& optimizer);
  void close(const Optimizer& optimizer);
  // What a program gets for the gradient of a leaf.
  Tensor read(const Tensor& leaf, const Tensor& in_memory);
  // The copies end; what the program wrote into them goes to memory.
  void settle();

 private:
  struct Loan {
    size_t optimizer;
    Tensor in_memory, copy = {};
    uint32_t version_in_memory = 0, version = 0;  // when it was made
    Tensor factor = {};                           // of the strategy; undefined: 1
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
