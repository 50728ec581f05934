// The list of a checkpoint folder's files with size and SHA-256, which proves that it is complete.
// Thread-safe.
#pragma once

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <vector>

namespace booster {

struct ManifestFile {
  std::string name;
  uint64_t bytes = 0;
  std::string sha256;
};

struct Manifest {
  int64_t step = 0;
  std::vector<ManifestFile> files;
  nlohmann::json about;  // versions, ranks: for information only

  std::string to_text() const;
};

inline constexpr const char* manifest_name = "manifest.json";

// Reads FOLDER/manifest.json. Throws an Error of kind data if it is not a manifest; if it names no
// file, a file twice or one outside the folder; or if it comes from a later version of the format.
Manifest read_manifest(const std::filesystem::path& folder);
// Throws an Error of kind data that names the first file that is missing or whose size or content
// differs.
void verify_manifest(const Manifest& manifest, const std::filesystem::path& folder);
// The same check for one file, given the size and SHA-256 that were read.
void check_content(const ManifestFile& want, const std::filesystem::path& path, uint64_t bytes,
                   const std::string& sha256);

}  // namespace booster
