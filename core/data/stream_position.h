// The place of one rank in an epoch of a stream: which shards are left, and where in each. Values.
//
// A checkpoint keeps the places of all ranks. The same number of ranks continues at its own. Any
// other number divides what is left of all shards anew, so that each record still comes once.
#pragma once

#include "core/data/loader.h"

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace booster {

// What is left of a shard.
struct ShardPosition {
  int64_t shard = 0;
  int64_t read = 0;        // records before `state`
  std::string state = {};  // the reader's
  // Of shuffled shards: the records from `state` on are read in blocks of this size, and the first
  // one has given so many.
  int64_t block = 0, given = 0;
  int64_t chunk = 0;  // records of a batch that the blocks were sorted for; 0: not by length

  bool has_begun() const { return read > 0 || block > 0; }
};

struct StreamPosition {
  int64_t ranks = 1;      // that share the stream
  int64_t shards = 1;     // of the stream
  bool is_whole = false;  // every rank reads all shards, and keeps each ranks-th record
  bool repeats = false;   // the rank's share is over; the rest is of a repeated one
  std::vector<ShardPosition> open = {};  // in the order of their turns
  std::shared_ptr<const std::vector<ShardPosition>> queue = nullptr;
  size_t opened = 0;  // the first of `queue` are open or done
};

std::string text_of(const StreamPosition& position);
// Returns the position that a text gives to this rank: its own, or the part of all ranks' places
// (joined_positions). Throws an Error of kind data for a text that is none, and for a position of
// another stream or, if only one rank's place is there, of another number of ranks.
StreamPosition stream_position(const std::string& text, int64_t shards,
                               const DataLoaderOptions& options);
bool reads_stream(const DataLoader& loader);
// Returns the places of all ranks, by rank, as one text.
std::string joined_positions(const std::vector<std::string>& texts);

}  // namespace booster
