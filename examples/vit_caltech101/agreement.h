// What the ranks of a run agree on, so that none goes on alone. Collectives: all ranks call them,
// in the same order.
#pragma once

#include <booster/booster.h>

#include <functional>
#include <string>
#include <vector>

namespace example {

// Runs `action` on rank 0 alone. If it fails with an Error, that is thrown there, and on the other
// ranks one of the same kind that repeats its message behind `what`.
void on_first_rank(const booster::World& world, const char* what,
                   const std::function<void()>& action);

// What rank 0 answers, on all ranks; errors as above.
std::string told_by_first_rank(const booster::World& world, const char* what,
                               const std::function<std::string()>& answer);

// The largest over all ranks, value by value.
std::vector<int64_t> largest(const booster::World& world, std::vector<int64_t> values);
double mean(const booster::World& world, double value);

}  // namespace example
