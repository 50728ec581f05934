// Divides a batch's rows into microbatches. Pure arithmetic.
#pragma once

#include <cstdint>
#include <vector>

namespace booster {

// Set either count or size.
struct MicrobatchRule {
  int count = 0;         // microbatches of each batch
  int64_t size = 0;      // maximum of rows in a microbatch
  int multiple_of = 1;   // divides the number of microbatches, if there are enough rows
};

// Returns where each microbatch begins, and the end. The sizes are as even as whole rows allow. No
// microbatch is empty, so a batch of few rows has fewer. Throws for a batch without rows.
std::vector<int64_t> cut_batch(int64_t rows, const MicrobatchRule& rule);

}  // namespace booster
