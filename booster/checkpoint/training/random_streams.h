// The random streams of all ranks (core/tensor/random/random.h), and their adaptation to another
// number of ranks.
#pragma once

#include "core/tensor/random/random.h"
#include "parallel/groups/group.h"

#include <vector>

namespace booster {

// Returns every rank's default generator, in rank order. Collective.
std::vector<RandomState> random_streams(const Group& group);

// Returns the stream with which each rank resumes. `saved` holds the streams at the save, `now` the
// current ones before any change; both by rank. A rank that existed then resumes its own stream.
// A new rank
// * takes rank 0's stream if the program seeded all ranks alike, so that they draw in step;
// * else begins a stream whose seed combines rank 0's seed and offset with its own rank. It repeats
//   no other stream, nor what this rank drew if it existed in an earlier run.
std::vector<RandomState> streams_to_resume(std::vector<RandomState> saved,
                                           const std::vector<RandomState>& now);

}  // namespace booster
