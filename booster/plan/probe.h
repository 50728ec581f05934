// Tries a training on this machine, made shorter: a model of blocks is trained for some steps with
// one block and with four, in turns, and what a block adds is what each of the others will. So the
// numbers are those of the strategy, the optimizer and the kernels that will run. A time is that of
// a median step: what else the machine does now, it will do then.
#pragma once

#include "booster/config/config.h"
#include "booster/plan/model_cost.h"

namespace booster::plan {

struct TriedStep {
  int64_t rows = 16;                               // samples
  int64_t tokens = 0;                              // of each text; 0: as many as the model takes
  double clip_grad_norm = 0, label_smoothing = 0;  // as a program does; 0: not at all
  bool timed = true;  // else work is counted and memory measured alone, which takes fewer steps
};

// The cost of the config's model, in its strategy, with its optimizer, on so many threads. Error if
// the strategy refuses to train. Takes seconds, and the memory of models of one and four blocks.
ModelCost probe(const Config& config, const TriedStep& step, int threads);

}  // namespace booster::plan
