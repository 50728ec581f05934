// Tensors of which every rank has numbers of its own, in one checkpoint: those of rank 1 are called
// "rank 1: NAME". For the thread that trains.
#pragma once

#include "core/nn/module.h"
#include "parallel/groups/group.h"

namespace booster {

// Those of all ranks on rank 0, of any names, dtypes and shapes; nothing on the others. Under their
// own names where there is one rank alone. All ranks call it.
StateDict tensors_of_ranks(const StateDict& own, const Group& group);
// Those of one rank, under their own names: rank 0's for a rank that was not there; all where they
// are not by rank.
StateDict tensors_of_rank(const StateDict& saved, int rank);

}  // namespace booster
