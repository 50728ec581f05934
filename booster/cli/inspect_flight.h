// `booster inspect` of a folder with records of what ranks last did together.
#pragma once

#include <filesystem>

namespace booster::cli {

// Whether it is a folder with files flight-N.json.
bool holds_flight_records(const std::filesystem::path& path);
// For each group, the first call that is not complete on all ranks, and where each rank is. Error
// (kind data) for a file that is no such record.
void print_flight_records(const std::filesystem::path& folder);

}  // namespace booster::cli
