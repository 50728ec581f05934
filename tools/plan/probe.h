// Tries a shortened training on this machine. Trains a model made of blocks for some steps with one
// block and with four, in turns; the difference is the cost per block. So the results include the
// real strategy, optimizer and kernels. Times are medians, and assume that the machine stays as
// loaded as now.
#pragma once

#include "booster/config/config.h"
#include "tools/plan/model_cost.h"

namespace booster::plan {

struct TriedStep {
  int64_t rows = 16;                               // samples
  int64_t tokens = 0;                              // of each text; 0: the model's maximum
  double clip_grad_norm = 0, label_smoothing = 0;  // as in the program; 0: off
  bool timed = true;  // false: only counts work and measures memory, with fewer steps
};

// Returns the cost of the config's model with its strategy and optimizer on `threads` threads.
// Throws if the strategy refuses to train. Takes seconds, and the memory of models with one and
// with four blocks.
ModelCost probe(const Config& config, const TriedStep& step, int threads);

}  // namespace booster::plan
