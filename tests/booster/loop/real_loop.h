// Makes the same calls on real models, optimizers and ranks, and compares with PlainLoop after
// each.
#pragma once

#include "parallel/mesh.h"
#include "tests/booster/loop/sequence.h"

#include <string>
#include <vector>

namespace booster::loop {

// Returns the strategies that sequences are drawn for: every built-in one in each level and style.
std::vector<std::string> strategies();
Limits limits_of(const std::string& strategy);

// Runs the sequence on this rank, together with all ranks of the world. `folder` is for its
// checkpoints. Returns "" or the first difference, with the action after which it appeared.
std::string play(const Sequence& sequence, const World& world, const std::string& folder);

}  // namespace booster::loop
