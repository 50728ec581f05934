// Tries a training on this machine, made shorter: a model of blocks is trained for some steps with
// one block and with two, and what one block adds is what each of the others will. So the numbers
// are those of the strategy, the optimizer and the kernels that will run.
#pragma once

#include "booster/config/config.h"
#include "booster/plan/model_cost.h"

namespace booster::plan {

struct TriedBatch {
  int64_t rows = 16;   // samples
  int64_t tokens = 0;  // of each text; 0: as many as the model takes
};

// The cost of the config's model, in its strategy, with its optimizer, on so many threads. Error if
// the strategy refuses to train. Takes seconds, and the memory of a model of two blocks.
ModelCost probe(const Config& config, const TriedBatch& size, int threads);

}  // namespace booster::plan
