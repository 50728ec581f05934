// The files of a training's folder (train.output_dir), treated as untrusted: they may be damaged,
// cut short or forged.
#pragma once

#include "booster/report/metrics_file.h"
#include "booster/report/run_files.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace booster::report {

struct RunFolder {
  std::filesystem::path path;
  std::string name;                                  // as shown in pages
  nlohmann::json record = nlohmann::json::object();  // run.json
  MetricsFile metrics;
  nlohmann::json worst_images = nlohmann::json::array();  // of worst_images.json
  std::vector<std::string> notes;  // sentences on files that could not be used
};

// Throws an Error of kind usage for a missing folder, with the nearest name. Also for a folder that
// has neither metrics.jsonl nor run.json, with the runs below it.
RunFolder read_run(const std::filesystem::path& folder);

// Returns the part of a value at a path of keys; null if there is none.
const nlohmann::json& part_of(const nlohmann::json& value, std::initializer_list<const char*> keys);

}  // namespace booster::report
