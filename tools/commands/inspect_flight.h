// `booster inspect` of a folder with flight records: what ranks last did together.
#pragma once

#include <filesystem>

namespace booster::cli {

// Returns whether the path is a folder with files flight-N.json.
bool holds_flight_records(const std::filesystem::path& path);
// Prints, for each group, the first call that is not complete on all ranks, and where each rank is.
// Throws an Error of kind data for a file that is not a flight record.
void print_flight_records(const std::filesystem::path& folder);

}  // namespace booster::cli
