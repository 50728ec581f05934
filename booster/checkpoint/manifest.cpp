#include "booster/checkpoint/manifest.h"

#include "booster/checkpoint/file.h"
#include "booster/config/json_document.h"

#include <openssl/evp.h>

namespace booster {

namespace {

namespace fs = std::filesystem;

constexpr int format_version = 1;
constexpr JsonLimits manifest_limits = {.bytes = size_t{16} << 20, .nodes = 1'000'000};

[[noreturn]] void not_a_manifest(const fs::path& path, const std::string& problem) {
  fail_data("{}: not a manifest: {}", path.string(), problem);
}

// A file directly in the folder: no path, no parent.
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
  return file;
}

}  // namespace

std::string sha256(std::span<const std::byte> bytes) {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  check(EVP_Digest(bytes.data(), bytes.size(), digest, &length, EVP_sha256(), nullptr) == 1,
        "sha256: libcrypto failed");
  std::string text;
  for (unsigned int i = 0; i < length; ++i) text += fmt::format("{:02x}", digest[i]);
  return text;
}

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
  for (const auto& row : files->items) manifest.files.push_back(file_row(row, path));
  if (const JsonValue* about = root.find("about")) manifest.about = about->to_json();
  return manifest;
}

ManifestFile describe_file(const fs::path& folder, const std::string& name) {
  const MappedFile file(folder / name);
  return {name, file.bytes().size(), sha256(file.bytes())};
}

void verify_manifest(const Manifest& manifest, const fs::path& folder) {
  for (const auto& want : manifest.files) {
    const std::string path = (folder / want.name).string();
    const MappedFile file(path);
    if (file.bytes().size() != want.bytes) {
      fail_data("{}: wrong size; got {} bytes, want {}", path, file.bytes().size(), want.bytes);
    }
    const std::string hash = sha256(file.bytes());
    if (hash != want.sha256)
      fail_data("{}: wrong content; got SHA-256 {}, want {}", path, hash, want.sha256);
  }
}

}  // namespace booster
