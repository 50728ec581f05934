#include "parallel/rendezvous/dead_places.h"

#include "parallel/rendezvous/place.h"

#include <cctype>
#include <filesystem>
#include <string_view>

namespace booster {

namespace fs = std::filesystem;

namespace {

bool is_place(std::string_view name) {
  return name == "leader" || name == "keeper" || name == "tool" ||
         (name.starts_with("rank-") && name.find('.') == std::string_view::npos);
}

// Names allowed directly in a meeting place or a run tool's folder: places, including unfinished
// ones, subfolders of runs, and numbered subfolders of attempts.
bool is_ours(std::string_view name) {
  const std::string_view stem = name.substr(0, name.find('.'));
  return is_place(stem) || name.starts_with("run-") ||
         (!name.empty() && std::isdigit(static_cast<unsigned char>(name[0])));
}

bool is_dead(const fs::path& folder) {
  bool found = false;
  std::error_code error;
  fs::recursive_directory_iterator entry(folder, error), end;
  for (; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (entry.depth() == 0 && !is_ours(name)) return false;
    if (!is_place(name)) continue;
    const auto place = Place::look(entry->path());
    if (!place || place->is_held()) return false;
    found = true;
  }
  return found && !error;
}

}  // namespace

void remove_dead_places(const std::string& parent, const std::string& prefix) {
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator(parent, ignored))
    if (entry.path().filename().string().starts_with(prefix) &&
        is_private_folder(entry.path()) && is_dead(entry.path()))
      fs::remove_all(entry.path(), ignored);
}

}  // namespace booster
