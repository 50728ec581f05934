#include "booster/checkpoint/checkpoint.h"

#include "booster/checkpoint/file.h"
#include "booster/checkpoint/sha256.h"
#include "booster/config/json_document.h"

#include <algorithm>
#include <cmath>
#include <future>

#include <unistd.h>

namespace booster {

namespace {

namespace fs = std::filesystem;

constexpr std::string_view folder_prefix = "step-";
constexpr const char* model_name = "model.safetensors";
constexpr const char* optimizer_name = "optimizer.safetensors";
constexpr const char* precision_name = "precision.safetensors";
constexpr const char* state_name = "state.json";
constexpr const char* latest_name = "latest";
constexpr JsonLimits state_limits = {
    .bytes = size_t{256} << 20, .nodes = 10'000'000, .unsigned_integers = true};

// The step of a folder named step-N, or -1.
int64_t step_of(const fs::path& folder) {
  const std::string name = folder.filename().string();
  const std::string digits = name.substr(std::min(name.size(), folder_prefix.size()));
  const bool fits = name.compare(0, folder_prefix.size(), folder_prefix) == 0 && !digits.empty() &&
                    digits.size() <= 18 && digits.find_first_not_of("0123456789") == digits.npos;
  return fits ? std::stoll(digits) : -1;
}

// Newest first. One that a killed writer set aside counts where nothing has its name.
std::vector<fs::path> checkpoint_folders(const fs::path& root) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(root, error)) {
    const fs::path named = root / entry.path().stem();
    const bool aside = entry.path() == aside_of(named) && is_marked(entry.path()) &&
                       !fs::exists(named, error);
    if (step_of(aside ? named : entry.path()) >= 0) folders.push_back(entry.path());
  }
  std::sort(folders.begin(), folders.end(),
            [](const auto& a, const auto& b) { return step_of(a.stem()) > step_of(b.stem()); });
  return folders;
}

uint64_t bytes_of(const TensorMap& tensors) {
  uint64_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += static_cast<uint64_t>(tensor.bytes());
  return bytes;
}

bool all_finite(const nlohmann::json& value) {
  if (value.is_number_float()) return std::isfinite(value.get<double>());
  return !value.is_structured() || std::all_of(value.begin(), value.end(), all_finite);
}

// JSON cannot represent everything that a nlohmann::json can: refuse it now, not on resume.
std::string state_text(const nlohmann::json& state) {
  check(state.is_object(), "checkpoint: state; got {}, want an object", state.type_name());
  for (const auto& [key, value] : state.items()) {
    check(all_finite(value), "checkpoint: state {} holds NaN or infinity; want finite numbers",
          show_text(key));
  }
  try {
    return state.dump(1) + "\n";
  } catch (const nlohmann::json::exception&) {
    fail("checkpoint: state holds text that is not UTF-8");
  }
}

ManifestFile write_new_file(const fs::path& folder, const char* name, std::string_view content) {
  FileWriter file(folder / name);
  Sha256 hash;
  file.hash_into(hash);
  file.write(content);
  file.close();
  return {name, file.written(), hash.digest()};
}

// Runs on its own thread: large files are written and hashed in parallel, which takes as long as
// the largest instead of the sum.
std::future<ManifestFile> write_tensors(const fs::path& folder, const char* name,
                                        const TensorMap& tensors) {
  return std::async(std::launch::async, [folder, name, &tensors] {
    FileWriter file(folder / name);
    Sha256 hash;
    file.hash_into(hash);
    write_safetensors(file, tensors, {{"format", "pt"}});
    file.close();
    return ManifestFile{name, file.written(), hash.digest()};
  });
}

// The link shows humans which is the newest; nothing depends on it, so a file system without links
// works too.
void point_latest_at(const fs::path& root, const fs::path& folder) {
  const fs::path temporary = root / (std::string(latest_name) + ".new");
  std::error_code ignored;
  fs::remove(temporary, ignored);
  fs::create_symlink(folder.filename(), temporary, ignored);
  if (!ignored) fs::rename(temporary, root / latest_name, ignored);
}

// True if every file exists with its size; the content was checked when it was written.
bool looks_whole(const fs::path& folder) {
  try {
    for (const auto& file : read_manifest(folder).files)
      if (fs::file_size(folder / file.name) != file.bytes) return false;
    return true;
  } catch (const std::exception&) {
    return false;
  }
}

// Keeps the newest `keep` complete ones, of which `newest` is known to be one, and removes the
// rest, as far as we made it.
void prune(const fs::path& root, const fs::path& newest, int keep) {
  int kept = 1;
  for (const auto& folder : checkpoint_folders(root)) {
    if (folder == newest || step_of(folder) > step_of(newest)) continue;
    if (kept < keep && looks_whole(folder)) {
      ++kept;
      continue;
    }
    std::error_code ignored;
    if (is_marked(folder) || fs::exists(folder / manifest_name, ignored))
      fs::remove_all(folder, ignored);
  }
}

// "a, b, c and 9 more"
std::string first_few(const std::vector<std::string>& names) {
  constexpr size_t most = 5;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), most); ++i) text += (i ? ", " : "") + names[i];
  if (names.size() > most) text += fmt::format(" and {} more", names.size() - most);
  return text;
}

std::string shape_and_dtype(const Tensor& tensor) {
  return tensor.shape().to_string() + " " + name_of(tensor.dtype());
}

}  // namespace

fs::path save_checkpoint(const fs::path& root, const CheckpointContents& contents, int keep) {
  check(contents.step >= 0, "checkpoint: step; got {}, want >= 0", contents.step);
  check(keep >= 1, "checkpoint: how many to keep; got {}, want >= 1", keep);
  const std::string state = state_text(contents.state);
  make_folders(root);
  clear_up(root, folder_prefix);
  const uint64_t bytes =
      bytes_of(contents.model) + bytes_of(contents.optimizer) + bytes_of(contents.precision);
  check_free_space(root, bytes + bytes / 20);

  const fs::path target = root / fmt::format("{}{:09}", folder_prefix, contents.step);
  AtomicFolder folder(target);
  std::vector<std::future<ManifestFile>> tensors;  // their threads end before the folder is removed
  tensors.push_back(write_tensors(folder.path(), model_name, contents.model));
  tensors.push_back(write_tensors(folder.path(), optimizer_name, contents.optimizer));
  if (!contents.precision.empty())
    tensors.push_back(write_tensors(folder.path(), precision_name, contents.precision));
  Manifest manifest{contents.step, {}, contents.about};
  manifest.files.push_back(write_new_file(folder.path(), state_name, state));
  for (auto& file : tensors) manifest.files.push_back(file.get());
  write_new_file(folder.path(), manifest_name, manifest.to_text());
  folder.commit();

  point_latest_at(root, target);
  prune(root, target, keep);
  return target;
}

namespace {

Manifest checkpoint_manifest(const fs::path& folder) {
  Manifest manifest = read_manifest(folder);
  const int64_t named = step_of(folder);
  if (named >= 0 && named != manifest.step) {
    fail_data("{}: the manifest is of another step; got {}, want {}", folder.string(),
              manifest.step, named);
  }
  for (const char* name : {model_name, optimizer_name, state_name})
    if (std::none_of(manifest.files.begin(), manifest.files.end(),
                     [&](const auto& file) { return file.name == name; }))
      fail_data("{}: not a checkpoint: its manifest does not name {}", folder.string(), name);
  return manifest;
}

// Reads the file as a whole, and returns it if it is what the manifest names.
template <class Read>
auto read_listed(const Manifest& manifest, const fs::path& folder, const char* name, Read&& read) {
  const auto want = std::find_if(manifest.files.begin(), manifest.files.end(),
                                 [&](const auto& file) { return file.name == name; });
  const fs::path path = folder / name;
  Sha256 hash;
  std::error_code error;
  const uint64_t bytes = fs::file_size(path, error);
  if (!error && bytes != want->bytes) check_content(*want, path, bytes, "");
  try {
    auto content = read(path, hash);
    check_content(*want, path, want->bytes, hash.digest());
    return content;
  } catch (const Error&) {
    verify_manifest({manifest.step, {*want}, {}}, folder);  // says more than what a parser met
    throw;
  }
}

TensorMap read_tensors(const Manifest& manifest, const fs::path& folder, const char* name) {
  return read_listed(manifest, folder, name, [](const fs::path& path, Sha256& hash) {
    return load_safetensors(path, &hash);
  });
}

}  // namespace

Manifest verify_checkpoint(const fs::path& folder) {
  Manifest manifest = checkpoint_manifest(folder);
  verify_manifest(manifest, folder);
  return manifest;
}

CheckpointContents load_checkpoint(const fs::path& folder) {
  const Manifest manifest = checkpoint_manifest(folder);
  CheckpointContents contents;
  contents.step = manifest.step;
  contents.about = manifest.about;
  contents.model = read_tensors(manifest, folder, model_name);
  contents.optimizer = read_tensors(manifest, folder, optimizer_name);
  for (const ManifestFile& file : manifest.files)
    if (file.name == precision_name)
      contents.precision = read_tensors(manifest, folder, precision_name);
  const std::string text =
      read_listed(manifest, folder, state_name, [](const fs::path& path, Sha256& hash) {
        std::string text = read_file(path, state_limits.bytes);
        hash.add(std::as_bytes(std::span(text)));
        return text;
      });
  contents.state =
      parse_json(text, (folder / state_name).string(), state_limits, ErrorKind::data).to_json();
  return contents;
}

std::optional<fs::path> latest_checkpoint(const fs::path& root,
                                          const std::function<void(const std::string&)>& report) {
  std::string last_problem;
  for (const auto& folder : checkpoint_folders(root)) {
    try {
      verify_checkpoint(folder);
      return folder;
    } catch (const Error& error) {
      last_problem =
          fmt::format("{}: broken checkpoint passed over: {}", folder.string(), error.what());
      report(last_problem);
    }
  }
  if (!last_problem.empty()) raise(ErrorKind::data, "no whole checkpoint is left; " + last_problem);
  return {};
}

void check_tensors(const TensorMap& into, const TensorMap& from, const std::string& what) {
  std::vector<std::string> missing, unexpected, different;
  for (const auto& [name, tensor] : into) {
    const auto found = from.find(name);
    if (found == from.end()) {
      missing.push_back(name);
    } else if (found->second.shape() != tensor.shape() || found->second.dtype() != tensor.dtype()) {
      different.push_back(fmt::format("{} (got {}, want {})", name, shape_and_dtype(found->second),
                                      shape_and_dtype(tensor)));
    }
  }
  for (const auto& [name, tensor] : from)
    if (!into.count(name)) unexpected.push_back(name);
  std::string problem;
  const auto tell = [&](const char* which, const std::vector<std::string>& names) {
    if (!names.empty())
      problem += fmt::format("; {} {}: {}", names.size(), which, first_few(names));
  };
  tell("missing", missing);
  tell("unexpected", unexpected);
  tell("of another shape or dtype", different);
  if (!problem.empty()) fail_data("{}: made for another model{}", what, problem);
}

void assign_tensors(const TensorMap& into, const TensorMap& from, const std::string& what) {
  check_tensors(into, from, what);
  for (const auto& [name, tensor] : into) tensor.detach().copy_(from.at(name));
}

}  // namespace booster
