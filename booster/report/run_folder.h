// What a training left in its folder (train.output_dir), read without trust: files may be damaged,
// cut short or anybody's.
#pragma once

#include "booster/report/metrics_file.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace booster::report {

struct RunFolder {
  std::filesystem::path path;
  std::string name;                                  // as pages call it
  nlohmann::json record = nlohmann::json::object();  // run.json
  MetricsFile metrics;
  nlohmann::json worst_images = nlohmann::json::array();  // of worst_images.json
  std::vector<std::string> notes;  // sentences on files that could not be used
};

// Error of kind usage for a folder that is not there, which names the nearest, and for one that
// holds neither metrics.jsonl nor run.json, which names runs below it.
RunFolder read_run(const std::filesystem::path& folder);

// The part of a value at a path of keys; null if there is none.
const nlohmann::json& part_of(const nlohmann::json& value, std::initializer_list<const char*> keys);

}  // namespace booster::report
