// Agreements between the ranks of a run, so that no rank continues alone. Collective: all ranks
// call these functions in the same order.
#pragma once

#include "examples/training/output_folder.h"

#include <booster/booster.h>

#include <filesystem>
#include <functional>
#include <optional>
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

// Returns the stop signal that any rank has caught, 0 if none. Throws an Error of kind failed on
// all ranks if the output folder, which rank 0 has, was removed or replaced.
int64_t agreed_stop_signal(const booster::World& world, const std::optional<OutputFolder>& folder,
                           const std::filesystem::path& output);

// Returns the maximum over all ranks, value by value.
std::vector<int64_t> largest(const booster::World& world, std::vector<int64_t> values);
double mean(const booster::World& world, double value);

}  // namespace example
