// FlatParameters: all parameters of one group as one vector, for rules that move along a line.
#pragma once

#include "core/optim/optimizer_body.h"

#include <array>
#include <functional>
#include <vector>

namespace booster {

class FlatParameters {
 public:
  // State tensors from place `first_rows` on are rows (k, n), the others vectors (n).
  FlatParameters(std::vector<OptimizedParameter>& parameters, size_t first_rows);

  // Returns the gradients, 0 for a parameter without.
  Tensor gradient() const;
  Tensor values() const;
  // Writes masters and parameters.
  void set_values(const Tensor& all);
  // Returns state i of all parameters; undefined before it is set.
  Tensor state(size_t i) const;
  void set_state(size_t i, const Tensor& all);
  // Returns the state tensors, which set_state replaces, for restore().
  using States = std::vector<std::array<Tensor, max_states>>;
  States states() const;
  void restore(const States& states);
  int64_t iterations() const { return parameters_[0].steps.taken(); }
  void set_iterations(int64_t count);

 private:
  Tensor joined(const std::function<Tensor(const OptimizedParameter&)>& of, bool rows) const;
  void each(const Tensor& all, bool rows,
            const std::function<void(OptimizedParameter&, const Tensor& piece)>& take);

  std::vector<OptimizedParameter>& parameters_;
  size_t first_rows_;
};

}  // namespace booster
