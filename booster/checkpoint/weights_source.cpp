#include "booster/checkpoint/folder/checkpoint.h"

#include "booster/checkpoint/folder/checkpoint_names.h"
#include "booster/checkpoint/folder/manifest.h"
#include "booster/checkpoint/model_files.h"

#include <algorithm>
#include <array>
#include <system_error>

namespace booster {

namespace fs = std::filesystem;

namespace {

constexpr const char* checkpoints_name = "checkpoint";  // in a training's folder

// Returns the nearest folder above a checkpoint that has a run.json. Paths may end with a '/'.
fs::path run_above(fs::path folder) {
  folder = fs::weakly_canonical(folder);
  for (int i = 0; i < 3; ++i, folder = folder.parent_path())
    if (fs::exists(folder / "run.json")) return folder;
  return {};
}

// Returns the folders that may hold checkpoints if the path is not one itself.
std::array<fs::path, 2> roots_of(const fs::path& path) { return {path / checkpoints_name, path}; }

bool any_in(const fs::path& folder, bool (*fits)(const fs::path&)) {
  std::error_code error;
  const fs::directory_iterator entries(folder, error);
  return std::any_of(begin(entries), end(entries),
                     [&](const fs::directory_entry& entry) { return fits(entry.path()); });
}

bool is_step(const fs::path& path) { return step_of(path) >= 0; }
bool is_model_file(const fs::path& path) {
  return path.extension() == ".safetensors" || is_index(path);
}

}  // namespace

bool is_checkpoint(const fs::path& folder) {
  std::error_code error;
  return fs::exists(folder / manifest_name, error);
}

bool holds_weights(const fs::path& path) {
  std::error_code error;
  if (!fs::is_directory(path, error)) return fs::exists(path, error) && is_model_file(path);
  const auto roots = roots_of(path);
  return is_checkpoint(path) || any_in(path, is_model_file) ||
         std::ranges::any_of(roots, [](const fs::path& root) { return any_in(root, is_step); });
}

WeightsSource find_weights(const fs::path& path,
                           const std::function<void(const std::string&)>& report) {
  std::error_code error;
  if (fs::is_directory(path, error) && !is_checkpoint(path))
    for (const fs::path& root : roots_of(path))
      if (fs::is_directory(root, error))
        if (const auto latest = latest_checkpoint(root, report)) return {*latest, run_above(root)};
  return {path, run_above(path)};
}

}  // namespace booster
