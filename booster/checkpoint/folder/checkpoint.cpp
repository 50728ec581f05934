#include "booster/checkpoint/folder/checkpoint.h"

#include "booster/checkpoint/folder/checkpoint_files.h"
#include "booster/checkpoint/folder/checkpoint_names.h"
#include "booster/checkpoint/folder/manifest.h"
#include "booster/checkpoint/folder/sharded_writer.h"
#include "platform/files/atomic_file.h"
#include "platform/files/file.h"
#include "platform/json/json_document.h"
#include "platform/warn.h"

#include <algorithm>
#include <cmath>

namespace booster {

namespace {

namespace fs = std::filesystem;

constexpr const char* latest_name = "latest";

// Returns the folders, newest first. A folder that a killed writer set aside counts if no other has
// its name.
std::vector<fs::path> checkpoint_folders(const fs::path& root) {
  std::vector<fs::path> folders;
  for (const auto& entry : entries_of(root)) {
    const fs::path named = root / entry.stem();
    const bool aside =
        entry == aside_of(named) && is_there(entry / folder_mark) && !is_there(named);
    if (step_of(aside ? named : entry) >= 0) folders.push_back(entry);
  }
  std::sort(folders.begin(), folders.end(),
            [](const auto& a, const auto& b) { return step_of(a.stem()) > step_of(b.stem()); });
  return folders;
}

bool all_finite(const nlohmann::json& value) {
  if (value.is_number_float()) return std::isfinite(value.get<double>());
  return !value.is_structured() || std::all_of(value.begin(), value.end(), all_finite);
}

// A nlohmann::json can hold values that JSON text cannot: refuse them now, not on resume.
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

// The link shows humans the newest checkpoint. No code depends on it, so a file system without
// links works too.
void point_latest_at(const fs::path& root, const fs::path& folder) {
  const fs::path temporary = root / (std::string(latest_name) + ".new");
  std::error_code ignored;
  fs::remove(temporary, ignored);
  fs::create_symlink(folder.filename(), temporary, ignored);
  if (!ignored) fs::rename(temporary, root / latest_name, ignored);
  if (ignored) fs::remove(temporary, ignored);
}

enum class Health { looks_whole, broken, unreadable };

// Checks that every file exists with its size; the content was checked when it was written.
Health health_of(const fs::path& folder) {
  try {
    for (const auto& file : read_manifest(folder).files)
      if (FileReader(folder / file.name).size() != file.bytes) return Health::broken;
    return Health::looks_whole;
  } catch (const Error& error) {
    return error.kind() == ErrorKind::data ? Health::broken : Health::unreadable;
  }
}

// Keeps the newest `keep` complete checkpoints, of which `newest` is known to be complete, and
// removes the rest that we made. A checkpoint that cannot be read now may be complete: it stays,
// uncounted.
void prune(const fs::path& root, const fs::path& newest, int keep) {
  int kept = 1;
  for (const auto& folder : checkpoint_folders(root)) {
    if (folder == newest || step_of(folder) > step_of(newest)) continue;
    const Health health = kept < keep ? health_of(folder) : Health::broken;
    if (health == Health::looks_whole) ++kept;
    if (health != Health::broken) continue;
    std::error_code ignored;
    if (is_marked(folder) || fs::exists(folder / manifest_name, ignored)) remove_folder(folder);
  }
}

// The new checkpoint is safe; a later save removes old ones if the folder cannot be listed now.
void prune_if_readable(const fs::path& root, const fs::path& newest, int keep) {
  try {
    prune(root, newest, keep);
  } catch (const Error&) {
  }
}

}  // namespace

const char* name_of(TensorKind kind) {
  constexpr const char* names[] = {"model", "optimizer", "precision", "program"};
  return names[static_cast<size_t>(kind)];
}

void check_save(int64_t step, const SaveOptions& options, const nlohmann::json& state) {
  check(step >= 0, "checkpoint: step; got {}, want >= 0", step);
  check(options.keep >= 1, "checkpoint: how many to keep; got {}, want >= 1", options.keep);
  shard_limit(options.size_per_shard, "checkpoint");
  state_text(state);
}

struct CheckpointWriter::Body {
  fs::path root, target;
  int64_t step;
  int keep;
  AtomicFolder folder;
  ShardedWriter tensors;
  size_t begun = 0;  // kinds before this have a file, or no tensors

  Body(const fs::path& root, int64_t step, const SaveOptions& options)
      : root(root),
        target(root / fmt::format("{}{:09}", step_folder_prefix, step)),
        step(step),
        keep(options.keep),
        folder(target),
        tensors(folder.path(), shard_limit(options.size_per_shard, "checkpoint")) {}

  // Model and optimizer have a file even without tensors.
  void begin(TensorKind kind) {
    for (; begun <= static_cast<size_t>(std::min(kind, TensorKind::optimizer)); ++begun)
      tensors.begin(name_of(tensor_kinds[begun]));
    if (static_cast<size_t>(kind) < begun) return;
    tensors.begin(name_of(kind));
    begun = static_cast<size_t>(kind) + 1;
  }
};

CheckpointWriter::CheckpointWriter(const fs::path& root, int64_t step, const SaveOptions& options) {
  make_folders(root);
  clear_up(root, step_folder_prefix);
  body_ = std::make_unique<Body>(root, step, options);
}
CheckpointWriter::~CheckpointWriter() = default;

void CheckpointWriter::add(TensorKind kind, const std::string& name, const Tensor& tensor) {
  body_->begin(kind);
  body_->tensors.add(name_of(kind), name, tensor);
}
bool CheckpointWriter::is_full() const { return body_->tensors.is_full(); }
void CheckpointWriter::write() { body_->tensors.write(); }

fs::path CheckpointWriter::commit(const nlohmann::json& state, const nlohmann::json& about) {
  Body& body = *body_;
  body.begin(TensorKind::optimizer);  // writes a file even without tensors
  Manifest manifest{body.step, {}, about};
  manifest.files.push_back(write_new_file(body.folder.path(), state_name, state_text(state)));
  for (ManifestFile& file : body.tensors.finish()) manifest.files.push_back(std::move(file));
  write_new_file(body.folder.path(), manifest_name, manifest.to_text());
  body.folder.commit();
  point_latest_at(body.root, body.target);
  prune_if_readable(body.root, body.target, body.keep);
  return body.target;
}

std::optional<fs::path> latest_checkpoint(const fs::path& root,
                                          const std::function<void(const std::string&)>& report) {
  std::string problem;  // of the newest broken one
  for (const auto& folder : checkpoint_folders(root)) {
    try {
      verify_checkpoint(folder);
      return folder;
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::data)
        fail_run(
            "{}: cannot be read, and may be whole: {}; want it readable, or out of the way to "
            "go on from an older one",
            folder.string(), error.what());
      const std::string passed_over = terminal_text(
          fmt::format("{}: broken checkpoint passed over: {}", folder.string(), error.what()));
      report(passed_over);
      if (problem.empty()) problem = passed_over;
    }
  }
  if (!problem.empty())
    raise(ErrorKind::data, "no whole checkpoint is left; of the newest: " + problem);
  return {};
}

}  // namespace booster
