#include "booster/checkpoint/folder/manifest.h"

#include "platform/files/file.h"
#include "platform/files/sha256.h"
#include "platform/json/json_document.h"

#include <algorithm>
#include <set>
#include <span>

namespace booster {

namespace {

namespace fs = std::filesystem;

constexpr int format_version = 1;
constexpr JsonLimits manifest_limits = {.bytes = size_t{16} << 20, .nodes = 1'000'000};

[[noreturn]] void not_a_manifest(const fs::path& path, const std::string& problem) {
  fail_data("{}: not a manifest: {}", path.string(), problem);
}

// Accepts a file directly in the folder: no path, no parent.
bool is_file_name(const std::string& name) {
  return !name.empty() && name.find('/') == name.npos && name != "." && name != "..";
}

ManifestFile file_row(const JsonValue& row, const fs::path& path) {
  const JsonValue* name = row.find("name");
  const JsonValue* bytes = row.find("bytes");
  const JsonValue* hash = row.find("sha256");
  const bool whole = name && bytes && hash && name->kind == JsonKind::string &&
                     bytes->kind == JsonKind::integer && bytes->scalar >= 0 &&
                     hash->kind == JsonKind::string;
  if (!whole) not_a_manifest(path, "a file without name, bytes or sha256");
  ManifestFile file{name->scalar, bytes->scalar, hash->scalar};
  if (!is_file_name(file.name)) not_a_manifest(path, "bad file name " + show_text(file.name));
  const bool is_hash = file.sha256.find_first_not_of("0123456789abcdef") == std::string::npos;
  if (!is_hash) not_a_manifest(path, "bad sha256 " + show_text(file.sha256));
  return file;
}

}  // namespace

std::string Manifest::to_text() const {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const auto& file : files)
    rows.push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  nlohmann::ordered_json json = {
      {"format", format_version}, {"step", step}, {"files", rows}, {"about", about}};
  return json.dump(2) + "\n";
}

Manifest read_manifest(const fs::path& folder) {
  const fs::path path = folder / manifest_name;
  const JsonValue root = read_json(path, manifest_limits, ErrorKind::data);
  const JsonValue* format = root.find("format");
  const JsonValue* step = root.find("step");
  const JsonValue* files = root.find("files");
  if (!format || format->kind != JsonKind::integer) not_a_manifest(path, "no format");
  if (format->scalar != format_version) {
    fail_data("{}: format of a later version; got {}, want {}", path.string(), show_value(*format),
              format_version);
  }
  if (!step || step->kind != JsonKind::integer || !files || files->kind != JsonKind::array) {
    not_a_manifest(path, "no step or no files");
  }
  Manifest manifest;
  manifest.step = step->scalar;
  if (step->scalar < 0) not_a_manifest(path, "step below 0");
  if (files->items.empty()) not_a_manifest(path, "it names no file");
  std::set<std::string> names;
  for (const auto& row : files->items) {
    const ManifestFile& file = manifest.files.emplace_back(file_row(row, path));
    if (!names.insert(file.name).second) not_a_manifest(path, "two files " + show_text(file.name));
  }
  if (const JsonValue* about = root.find("about")) manifest.about = about->to_json();
  return manifest;
}

std::string manifest_hash(const fs::path& folder) {
  const std::string text = read_file(folder / manifest_name, manifest_limits.bytes);
  return sha256(std::as_bytes(std::span(text)));
}

void check_content(const ManifestFile& want, const fs::path& path, uint64_t bytes,
                   const std::string& sha256) {
  if (bytes != want.bytes)
    fail_data("{}: wrong size; got {} bytes, want {}", path.string(), bytes, want.bytes);
  if (sha256 != want.sha256) {
    fail_data("{}: wrong content; got SHA-256 {}, want {}", path.string(), sha256, want.sha256);
  }
}

void verify_manifest(const Manifest& manifest, const fs::path& folder) {
  std::vector<char> piece(size_t{1} << 20);
  for (const auto& want : manifest.files) {
    FileReader file(folder / want.name);
    Sha256 hash;
    file.hash_into(hash);
    if (file.size() == want.bytes)
      for (uint64_t at = 0; at < file.size(); at += piece.size())
        file.read(at, piece.data(), std::min<uint64_t>(piece.size(), file.size() - at));
    check_content(want, file.path(), file.size(), hash.digest());
  }
}

}  // namespace booster
