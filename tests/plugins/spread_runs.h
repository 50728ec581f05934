// Which strategies and optimizers train spread in which way, on which ranks.
#pragma once

#include "tests/parallel/ranks.h"
#include "tests/plugins/spread_training.h"

namespace booster::testing {

// What this rank does of it. All ranks call it.
using SpreadMaker = std::function<Spread(const Group& world)>;

// Trains in fp32, and in this run's share of all strategies by all optimizers and their resumes
// (tests/draws.h): doctest checks. With EQUIVALENCE=FILE it adds the distances to that file, of
// which scripts/equivalence.sh makes a table.
void train_all(const SpreadMaker& spread);
// As above, but takes one optimizer for each strategy, in turn from `turn` on, and on GPUs every
// sixth strategy.
void train_in_turn(const SpreadMaker& spread, size_t turn);
// `run_ranks` on 4 ranks over Gloo alone, on two machines (shared memory and Gloo), and over MPI
// where there is one, in a few strategies.
void run_ranks_over_each(const std::string& test_case);
// With the model on GPUs, in turn instead of all: as many GPUs as ranks, so that NCCL connects
// them, or fewer.
void run_ranks_on_gpus(const std::string& test_case, int size, int gpus);
inline void run_ranks_on_gpus(const std::string& test_case, int size) {
  run_ranks_on_gpus(test_case, size, size);
}

// Whether this rank was started so.
bool is_on_gpus();

}  // namespace booster::testing
