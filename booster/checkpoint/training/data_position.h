// Where a training is in its data, in terms that do not depend on how it is spread: in samples of
// all ranks, along the one order that ranks take their samples from in turn.
//
// So a position of 4 ranks is one of 2 where a whole number of the new steps (batch_size x ranks
// samples) has been done. The start and the end of an epoch always are. For the thread that trains.
#pragma once

#include "core/data/loader.h"
#include "parallel/groups/group.h"

#include <string>

namespace booster {

// How an epoch is cut into batches, and where in it the training is.
struct DataPosition {
  LoaderState at;
  int64_t batch_size = 0;
  int64_t shares = 1;   // ranks that have data of their own
  int64_t batches = 0;  // in an epoch, of one rank

  int64_t samples_per_step() const { return batch_size * shares; }
};
DataPosition data_position(const DataLoader& loader);

// A rank's part of the fingerprint of an epoch's order: each sample with its place in the order.
// Those that fill up the last batches, twice in the epoch, do not count.
uint64_t order_part(const DataLoader& loader, uint64_t epoch);
// The whole fingerprint, from each rank's part; the same for any number of ranks. All ranks call
// it.
uint64_t order_of_ranks(uint64_t part, const DataLoader& loader, const Group& group);

// The saved position as one of `now`, whose epochs have the same `samples`. Error of kind data that
// names the batch sizes and ranks that fit, if none is; `what` begins it.
LoaderState moved_position(const DataPosition& saved, const DataPosition& now, int64_t samples,
                           const std::string& what);

}  // namespace booster
