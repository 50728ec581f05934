#include "tools/report/run_folder.h"

#include "booster/report/metrics_file.h"
#include "platform/json/json_document.h"

#include <fmt/format.h>

#include <algorithm>

namespace booster::report {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

constexpr const char *metrics_name = "metrics.jsonl", *record_name = "run.json";
constexpr JsonLimits file_limits = {.bytes = size_t{64} << 20, .nodes = 4'000'000};

bool is_file(const fs::path& path) {
  std::error_code error;
  return fs::is_regular_file(path, error);
}
bool is_run(const fs::path& folder) {
  return is_file(folder / metrics_name) || is_file(folder / record_name);
}

std::vector<std::string> folders_in(const fs::path& folder, bool runs_only) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.is_directory(error) && (!runs_only || is_run(entry.path())))
      names.push_back(entry.path().filename().string());
  std::ranges::sort(names);
  return names;
}

[[noreturn]] void not_there(const fs::path& folder) {
  const fs::path parent = folder.has_parent_path() ? folder.parent_path() : fs::path(".");
  const std::string near = nearest_name(folder.filename().string(), folders_in(parent, false));
  fail("report: {}: no such folder{}", show_text(folder.string()),
       near.empty() ? "" : "; did you mean " + show_text((parent / near).string()) + "?");
}

[[noreturn]] void no_run(const fs::path& folder) {
  const auto runs = folders_in(folder, true);
  constexpr size_t most = 5;
  std::string below;
  for (size_t i = 0; i < std::min(runs.size(), most); ++i)
    below += (i ? ", " : "; runs below it: ") + show_text((folder / runs[i]).string());
  if (runs.size() > most) below += fmt::format(" and {} more", runs.size() - most);
  fail(
      "report: {} is no run; got neither {} nor {} in it, want the train.output_dir of a training"
      "{}",
      show_text(folder.string()), metrics_name, record_name, below);
}

// Reads a JSON file that may be absent; turns an error into a note.
Json read_part(RunFolder& run, const char* name, const char* lost) {
  if (!is_file(run.path / name)) return {};
  try {
    return read_json(run.path / name, file_limits, ErrorKind::data).to_json();
  } catch (const Error& error) {
    run.notes.push_back(fmt::format("{} cannot be used, so {}: {}", name, lost, error.what()));
    return {};
  }
}

}  // namespace

RunFolder read_run(const fs::path& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) not_there(folder);
  if (!is_run(folder)) no_run(folder);
  RunFolder run;
  run.path = folder;
  const fs::path whole = fs::weakly_canonical(folder, error);
  run.name = error ? folder.string() : whole.filename().string();
  run.metrics = read_metrics(folder / metrics_name);
  if (!run.metrics.readable)
    run.notes.push_back(fmt::format("{} cannot be read: no curves", metrics_name));
  Json record = read_part(run, record_name, "its config and times are missing");
  if (record.is_object()) run.record = std::move(record);
  Json worst = read_part(run, "worst_images.json", "its images are missing");
  if (worst.is_object() && part_of(worst, {"images"}).is_array())
    run.worst_images = part_of(worst, {"images"});
  return run;
}

const Json& part_of(const Json& value, std::initializer_list<const char*> keys) {
  static const Json none;
  const Json* at = &value;
  for (const char* key : keys) {
    if (!at->is_object()) return none;
    const auto found = at->find(key);
    if (found == at->end()) return none;
    at = &*found;
  }
  return *at;
}

}  // namespace booster::report
