#include "booster/checkpoint/folder/checkpoint.h"
#include "booster/checkpoint/folder/checkpoint_files.h"
#include "booster/checkpoint/folder/checkpoint_names.h"
#include "booster/checkpoint/folder/manifest.h"
#include "booster/checkpoint/safetensors/shard_index.h"
#include "platform/files/atomic_file.h"
#include "platform/files/file.h"
#include "platform/files/sha256.h"
#include "platform/json/json_document.h"

#include <algorithm>
#include <span>

namespace booster {

namespace fs = std::filesystem;

namespace {

constexpr JsonLimits state_limits = {
    .bytes = size_t{256} << 20, .nodes = 10'000'000, .unsigned_integers = true};

std::string whole_name(TensorKind kind) { return shard_name(name_of(kind), 1, 1); }

std::string read_text(const fs::path& path, Sha256& hash) {
  std::string text = read_file(path, state_limits.bytes);
  hash.add(std::as_bytes(std::span(text)));
  return text;
}

}  // namespace

int64_t step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  const std::string digits = name.substr(std::min(name.size(), step_folder_prefix.size()));
  const bool fits = name.starts_with(step_folder_prefix) && !digits.empty() &&
                    digits.size() <= 18 && digits.find_first_not_of("0123456789") == digits.npos;
  return fits ? std::stoll(digits) : -1;
}

CheckpointReader::CheckpointReader(const fs::path& folder)
    : folder_(folder), manifest_(std::make_shared<Manifest>(read_manifest(folder))) {
  const int64_t named = step_of(folder);
  if (named >= 0 && named != manifest_->step) {
    fail_data("{}: the manifest is of another step; got {}, want {}", folder.string(),
              manifest_->step, named);
  }
  const auto want = [&](bool is_there, const std::string& name) {
    if (!is_there)
      fail_data("{}: not a checkpoint: its manifest does not name {}", folder.string(), name);
  };
  want(find(state_name), state_name);
  for (const TensorKind kind : {TensorKind::model, TensorKind::optimizer})
    want(find(whole_name(kind)) || find(index_name(name_of(kind))), whole_name(kind));
}

const ManifestFile* CheckpointReader::find(const std::string& name) const {
  const auto found = std::ranges::find(manifest_->files, name, &ManifestFile::name);
  return found == manifest_->files.end() ? nullptr : &*found;
}

// Reads the whole file and returns it if it matches the manifest.
template <class Read>
auto CheckpointReader::read_listed(const std::string& name, Read&& read) const {
  const fs::path path = folder_ / name;
  const ManifestFile* want = find(name);
  if (!want) fail_data("{}: not in the checkpoint's manifest", path.string());
  Sha256 hash;
  std::error_code error;
  const uint64_t bytes = fs::file_size(path, error);
  if (!error && bytes != want->bytes) check_content(*want, path, bytes, "");
  try {
    auto content = read(path, hash);
    check_content(*want, path, want->bytes, hash.digest());
    return content;
  } catch (const Error&) {
    verify_manifest({manifest_->step, {*want}, {}}, folder_);  // more precise than a parser's error
    throw;
  }
}

nlohmann::json CheckpointReader::state() const {
  const std::string path = (folder_ / state_name).string();
  return parse_json(read_listed(state_name, read_text), path, state_limits, ErrorKind::data)
      .to_json();
}

nlohmann::json checkpoint_state(const std::filesystem::path& checkpoint) {
  return CheckpointReader(checkpoint).state();
}

std::vector<std::string> CheckpointReader::files(TensorKind kind) const {
  const std::string whole = whole_name(kind), index = index_name(name_of(kind));
  if (find(whole)) return {whole};
  if (!find(index)) return {};
  return parse_shard_index(read_listed(index, read_text), (folder_ / index).string()).files();
}

TensorMap CheckpointReader::load(TensorKind kind, const std::string& file) const {
  TensorMap tensors = read_listed(
      file, [](const fs::path& path, Sha256& hash) { return load_safetensors(path, &hash); });
  const std::string index = index_name(name_of(kind));
  if (find(whole_name(kind)) || !find(index)) return tensors;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  check_shard(parse_shard_index(read_listed(index, read_text), (folder_ / index).string()),
              folder_ / file, names);
  return tensors;
}

Manifest verify_checkpoint(const fs::path& folder) {
  const CheckpointReader reader(folder);
  verify_manifest(reader.manifest(), folder);
  return reader.manifest();
}

}  // namespace booster
