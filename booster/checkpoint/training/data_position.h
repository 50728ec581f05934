// The position of a training in its data, independent of the number of ranks. It counts the samples
// of all ranks along the one order that ranks take their samples from in turn.
//
// A position saved by 4 ranks is valid for 2 ranks if a whole number of the new steps (batch_size x
// ranks samples) has been done. The start and the end of an epoch are always valid.
//
// The position in a stream is the place of every rank (core/data/stream_position.h), which is valid
// for any number of ranks. For the thread that trains.
#pragma once

#include "core/data/loader.h"
#include "parallel/groups/group.h"

#include <string>

namespace booster {

// How an epoch is cut into batches, and the current position in it.
struct DataPosition {
  LoaderState at;
  int64_t batch_size = 0;
  int64_t shares = 1;   // ranks with data of their own
  int64_t batches = 0;  // of one rank in an epoch; 0 for a stream

  int64_t samples_per_step() const { return batch_size * shares; }
};
DataPosition data_position(const DataLoader& loader);
// Returns the places of all ranks in a stream; "" between epochs and for a data set. `own` is this
// rank's. Collective.
std::string places_of_ranks(const std::string& own, const DataLoader& loader, const Group& group);
// Throws an Error of kind data, beginning with `what`, unless this rank can continue at these
// places.
void check_places(const std::string& places, const DataLoader& loader, const std::string& what);

// Returns this rank's part of the fingerprint of an epoch's order: each sample with its place in
// the order. Repeated samples that fill up the last batches do not count.
uint64_t order_part(const DataLoader& loader, uint64_t epoch);
// Combines the parts of all ranks into the whole fingerprint. It is the same for any number of
// ranks. Collective.
uint64_t order_of_ranks(uint64_t part, const DataLoader& loader, const Group& group);

// Converts the saved position to the layout `now`, whose epochs have the same `samples`. If there
// is none, throws an Error of kind data, beginning with `what`, that names the batch sizes and
// ranks that fit.
LoaderState moved_position(const DataPosition& saved, const DataPosition& now, int64_t samples,
                           const std::string& what);

}  // namespace booster
