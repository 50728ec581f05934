// How many rows of a batch each microbatch has. Pure arithmetic.
#pragma once

#include <cstdint>
#include <vector>

namespace booster {

// One of the two is given.
struct MicrobatchRule {
  int count = 0;         // microbatches of each batch
  int64_t size = 0;      // rows of each microbatch, at most
  int multiple_of = 1;   // their number is divisible by this, where there are rows enough
};

// Where each microbatch begins, and the end: as even as whole rows allow, and none is empty, so a
// batch of few rows has fewer. Error for a batch without rows.
std::vector<int64_t> cut_batch(int64_t rows, const MicrobatchRule& rule);

}  // namespace booster
