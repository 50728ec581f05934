// The same calls on real models, optimizers and ranks, compared with PlainLoop after each.
#pragma once

#include "parallel/launch.h"
#include "tests/booster/loop/sequence.h"

#include <string>
#include <vector>

namespace booster::loop {

// The strategies that sequences are drawn for: every built-in one in each of its levels and styles.
std::vector<std::string> strategies();
Limits limits_of(const std::string& strategy);

// Plays the sequence on this rank, among all of the world. `folder` is for its checkpoints. Gives
// "" or the first difference, with the action after which it was seen.
std::string play(const Sequence& sequence, const World& world, const std::string& folder);

}  // namespace booster::loop
