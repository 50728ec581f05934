// Tensors with a separate value on each rank, stored in one checkpoint. Rank 1's tensors are named
// "rank 1: NAME". For the thread that trains.
#pragma once

#include "core/nn/module.h"
#include "parallel/groups/group.h"

namespace booster {

// Returns the tensors of all ranks on rank 0, and nothing on other ranks. Ranks may have different
// names, dtypes and shapes. A single rank's tensors keep their own names. Collective.
StateDict tensors_of_ranks(const StateDict& own, const Group& group);
// Returns one rank's tensors under their own names: rank 0's for a rank that did not exist at the
// save. If the tensors are not stored by rank, returns all of them.
StateDict tensors_of_rank(const StateDict& saved, int rank);

}  // namespace booster
