// Agreements between the ranks of a run, so that no rank continues alone. Collective: all ranks
// call these functions in the same order.
#pragma once

#include <booster/booster.h>

#include <functional>
#include <string>
#include <vector>

namespace example {

// Runs `action` on rank 0. If it throws an Error, rank 0 rethrows it; the other ranks throw an
// Error of the same kind with `what` followed by its message.
void on_first_rank(const booster::World& world, const char* what,
                   const std::function<void()>& action);

// Returns rank 0's answer on all ranks; errors as above.
std::string told_by_first_rank(const booster::World& world, const char* what,
                               const std::function<std::string()>& answer);

// Returns the maximum over all ranks, value by value.
std::vector<int64_t> largest(const booster::World& world, std::vector<int64_t> values);
double mean(const booster::World& world, double value);

}  // namespace example
