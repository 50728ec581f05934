// The combinations of strategies, optimizers, layouts and ranks under test.
#pragma once

#include "tests/parallel/ranks.h"
#include "tests/plugins/spread_training.h"

namespace booster::testing {

// Returns this rank's part of a layout. Collective.
using SpreadMaker = std::function<Spread(const Group& world)>;

// Trains every strategy with every optimizer, and resumes; these are doctest checks. With
// EQUIVALENCE=FILE the distances are appended to the file, from which scripts/equivalence.sh makes
// a table.
void train_all(const SpreadMaker& spread);
// Trains strategies with one optimizer each, in turn; resumes some. With EQUIVALENCE it trains all
// strategies, else every other one (every sixth on GPUs) and fp32. `turn` is the starting point.
void train_in_turn(const SpreadMaker& spread, size_t turn);
// `run_ranks` on 4 ranks over Gloo alone, on two machines (shared memory and Gloo), or over MPI if
// available, with one of three strategies. Each is a draw, and successive calls begin with others.
void run_ranks_over_each(const std::string& test_case);
// Trains with the model on GPUs, in turn instead of all combinations. There are as many GPUs as
// ranks, so that NCCL connects them, or fewer.
void run_ranks_on_gpus(const std::string& test_case, int size, int gpus);
inline void run_ranks_on_gpus(const std::string& test_case, int size) {
  run_ranks_on_gpus(test_case, size, size);
}

// Returns whether this rank was started by run_ranks_on_gpus.
bool is_on_gpus();

}  // namespace booster::testing
