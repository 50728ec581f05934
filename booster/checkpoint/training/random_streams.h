// The random streams of all ranks (core/tensor/random/random.h), and those of another number of
// ranks.
#pragma once

#include "core/tensor/random/random.h"
#include "parallel/groups/group.h"

#include <vector>

namespace booster {

// Every rank's default generator, in rank order. All ranks call it.
std::vector<RandomState> random_streams(const Group& group);

// Where the stream of each rank goes on, given the streams at the save and `now`, before they are
// changed; both by rank. A rank that was there goes on with its own. One that was not
// - takes rank 0's, where the program has seeded all ranks alike: they draw in step;
// - else begins a stream whose seed is made of rank 0's seed and offset and of its own number, so
//   that it repeats no other, nor what it drew itself if it was there once before.
std::vector<RandomState> streams_to_resume(std::vector<RandomState> saved,
                                           const std::vector<RandomState>& now);

}  // namespace booster
