// All steps of one recurrent layer in one direction; for the files of this folder.
#pragma once

#include "core/nn/recurrent_formula.h"

#include <vector>

namespace booster {

// The order of steps: from the first to the last, or back.
struct StepOrder {
  int64_t steps;
  bool reverse;
  // Returns the i-th step to run.
  int64_t at(int64_t i) const { return reverse ? steps - 1 - i : i; }
};

// Returns true if run_as_one can run these steps: in f32 or f64, without projection, and where no
// recorder of ops wants each of them.
bool runs_as_one(const Tensor& gates, const RecurrentWeights& weights);

// Runs all steps as one call of the tape. `gates` (steps, batch, gates hidden) is the input times
// its weights. Returns h of all steps (steps, batch, hidden) and sets `state` to the last one's.
// Backward computes the gradient of the hidden weights in one product. To be differentiated twice,
// it runs `composed`, the same as separate differentiable calls.
using ComposedSteps = std::vector<Tensor> (*)(const RecurrentFormula& formula, const Tensor& gates,
                                              const RecurrentFormula::State& first,
                                              const RecurrentWeights& weights, StepOrder order);
Tensor run_as_one(const RecurrentFormula& formula, const Tensor& gates,
                  RecurrentFormula::State& state, const RecurrentWeights& weights, StepOrder order,
                  ComposedSteps composed);

}  // namespace booster
