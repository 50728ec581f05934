#include "booster/checkpoint/safetensors/shard_index.h"

#include "platform/files/file.h"
#include "platform/json/json_document.h"

#include <fmt/format.h>

#include <algorithm>

namespace booster {

namespace fs = std::filesystem;

namespace {

constexpr std::string_view extension = ".safetensors";
// Allows as many tensors as a file may have, with names of 100 letters.
constexpr JsonLimits index_limits = {.bytes = size_t{100} << 20, .nodes = 1'100'000};

[[noreturn]] void not_an_index(const std::string& file, const std::string& problem) {
  fail_data("{}: not an index of shards: {}", file, problem);
}

// Accepts a file directly in the folder: no path, no parent, not hidden.
bool is_shard_name(const std::string& name) {
  return name.find('/') == name.npos && name.find('\\') == name.npos && name[0] != '.' &&
         name.size() > extension.size() && name.size() <= 255 && name.ends_with(extension);
}

uint64_t total_size_in(const JsonValue& root, const std::string& file) {
  const JsonValue* metadata = root.find("metadata");
  if (!metadata) return 0;
  if (metadata->kind != JsonKind::object) not_an_index(file, "its metadata are no object");
  const JsonValue* size = metadata->find("total_size");
  if (!size) return 0;
  const bool whole = size->kind == JsonKind::integer && size->scalar >= 0;
  if (!whole && size->kind != JsonKind::number)  // some write 1.2e9
    not_an_index(file, "total_size; got " + show_value(*size) + ", want a number of bytes");
  return whole ? size->scalar.get<uint64_t>() : 0;
}

}  // namespace

std::string ShardIndex::to_text() const {
  const nlohmann::json json = {{"metadata", {{"total_size", total_size}}},
                               {"weight_map", weight_map}};
  return json.dump(2) + "\n";
}

std::vector<std::string> ShardIndex::files() const {
  std::set<std::string> files;
  for (const auto& [tensor, file] : weight_map) files.insert(file);
  return {files.begin(), files.end()};
}

std::set<std::string> ShardIndex::tensors_of(const std::string& file) const {
  std::set<std::string> tensors;
  for (const auto& [tensor, in] : weight_map)
    if (in == file) tensors.insert(tensor);
  return tensors;
}

ShardIndex parse_shard_index(std::string_view text, const std::string& file) {
  const JsonValue root = parse_json(text, file, index_limits, ErrorKind::data);
  const JsonValue* map = root.find("weight_map");
  if (!map || map->kind != JsonKind::object) not_an_index(file, "no weight_map");
  if (map->items.empty()) not_an_index(file, "its weight_map names no tensor");
  ShardIndex index{total_size_in(root, file), {}};
  for (const JsonValue& row : map->items) {
    if (row.kind != JsonKind::string)
      not_an_index(file, fmt::format("tensor {}; got {}, want the name of a file",
                                     show_text(row.key), show_value(row)));
    const std::string name = row.scalar;
    if (!is_shard_name(name))
      not_an_index(file, fmt::format("tensor {}; got {}, want the plain name of a {} file",
                                     show_text(row.key), show_text(name), extension));
    index.weight_map.emplace(row.key, name);
  }
  return index;
}

ShardIndex read_shard_index(const fs::path& path) {
  return parse_shard_index(read_file(path, index_limits.bytes), path.string());
}

fs::path shard_beside(const fs::path& folder, const std::string& name) {
  const fs::path path = folder / name;
  std::error_code error;
  const fs::path real = fs::canonical(path, error);
  if (error) fail_data("{}: the index names it; cannot open: {}", path.string(), error.message());
  const fs::path home = fs::canonical(folder, error);
  const fs::path cache = home.parent_path().parent_path() / "blobs";
  if (real.parent_path() != home && real.parent_path() != cache) {
    fail_data("{}: a link that leads out of the folder; got {}, want a file in the folder",
              path.string(), show_text(real.string()));
  }
  return path;
}

void check_shard(const ShardIndex& index, const fs::path& file,
                 const std::vector<std::string>& tensors) {
  const std::string name = file.filename().string();
  std::set<std::string> wanted = index.tensors_of(name);
  for (const std::string& tensor : tensors)
    if (wanted.erase(tensor) == 0) {
      const auto other = index.weight_map.find(tensor);
      fail_data("{}: holds tensor {}, which the index {}", file.string(), show_text(tensor),
                other == index.weight_map.end() ? "does not name"
                                                : "places in " + show_text(other->second));
    }
  if (!wanted.empty())
    fail_data("{}: tensor {} is missing, which the index places there", file.string(),
              show_text(*wanted.begin()));
}

std::string shard_name(const std::string& stem, size_t number, size_t count) {
  if (count == 1) return stem + std::string(extension);
  return fmt::format("{}-{:05}-of-{:05}{}", stem, number, count, extension);
}

std::string index_name(const std::string& stem) {
  const size_t dot = std::min(stem.find('.'), stem.size());
  return stem.substr(0, dot) + std::string(extension) + ".index" + stem.substr(dot) + ".json";
}

}  // namespace booster
