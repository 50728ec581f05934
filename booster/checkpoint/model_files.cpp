#include "booster/checkpoint/model_files.h"

#include "booster/checkpoint/folder/sharded_writer.h"
#include "booster/checkpoint/safetensors/check_tensors.h"
#include "booster/checkpoint/safetensors/safetensors.h"
#include "booster/checkpoint/safetensors/safetensors_file.h"
#include "booster/checkpoint/training/finish_together.h"
#include "booster/checkpoint/training/whole_tensors.h"
#include "booster/training/session.h"
#include "core/nn/joined_traits.h"
#include "core/nn/module_traits.h"
#include "core/tensor/tensor.h"
#include "platform/files/atomic_file.h"
#include "platform/files/file.h"
#include "platform/json/json_document.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <set>
#include <unordered_map>

namespace booster {

namespace fs = std::filesystem;

namespace {

// The model's tensors, by the names in its session. If several models were boosted together, those
// names begin with the model's number.
struct Names {
  StateDict held;                               // by the session's names
  std::map<std::string, std::string> own, all;  // session's -> the model's, and the reverse
};

// `whole` is the model of the session: the model itself, or all models that were boosted together.
Names names_of(const Model& model, const Model& whole) {
  std::unordered_map<const TensorBody*, std::string> of_session;
  for (const auto& [name, tensor] : whole.state_dict()) of_session.emplace(tensor.body(), name);
  Names names;
  for (const auto& [name, tensor] : model.state_dict()) {
    const std::string& known = of_session.at(tensor.body());
    names.held.push_back({known, tensor});
    names.own.emplace(known, name);  // a tensor with two names uses its first
    names.all[name] = known;
  }
  return names;
}

Names names_of(const BoostedModel& model) {
  return names_of(model.unwrap(), model.session().model);
}

// Returns a whole tensor in its file form. `known`: the session's name of the tensor.
NamedTensor stored_form(const FileForms& forms, const Names& names, const std::string& known,
                        const Tensor& whole) {
  return forms.to_file({names.own.at(known), whole});
}

// Throws if `folder` holds files that are not a model's: replacing the folder would remove them.
void check_replaceable(const fs::path& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return;
  check(fs::is_directory(folder), "save_model: {} is a file; want a folder, or shard = false",
        folder.string());
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    const bool is_weights = name.ends_with(".safetensors") || name.ends_with(".json");
    const bool is_ours = is_weights && (name.starts_with("model.") || name.starts_with("model-"));
    check(is_ours || name == folder_mark,
          "save_model: {} holds {}, which saving there would remove; want a folder of a model's "
          "files alone, or a new one",
          folder.string(), show_text(name));
  }
}

void check_options(const fs::path& path, const SaveModelOptions& options) {
  shard_limit(options.size_per_shard, "save_model");
  const auto is_plain = [](unsigned char c) { return std::isalnum(c) || c == '_'; };
  check(std::ranges::all_of(options.prefix, is_plain),
        "save_model: prefix; got {}, want letters, digits and _", show_text(options.prefix));
  check(path.has_filename(), "save_model: checkpoint; got {}, want the name of a file or folder",
        show_text(path.string()));
  std::error_code error;
  check(options.shard || !fs::is_directory(path, error),
        "save_model: {} is a folder; want a file, or shard = true", path.string());
}

// A folder while it is filled.
struct Shards {
  AtomicFolder folder;
  ShardedWriter writer;
  explicit Shards(const fs::path& target, const SaveModelOptions& options)
      : folder(target), writer(folder.path(), shard_limit(options.size_per_shard, "save_model")) {}
};

void save_shards(const BoostedModel& model, const fs::path& target,
                 const SaveModelOptions& options) {
  const Session& session = model.session();
  const Group group = session.plugin->group();
  const std::string stem = options.prefix.empty() ? "model" : "model." + options.prefix;
  const Names names = names_of(model);
  const FileForms forms(model.unwrap().module());
  std::unique_ptr<Shards> shards;  // on rank 0
  const auto on_rank_0 = [&](const std::function<void()>& work) {
    finish_together(group, "save_model", group.rank() == 0 ? work : std::function<void()>());
  };
  on_rank_0([&] {
    check_replaceable(target);
    if (target.has_parent_path()) make_folders(target.parent_path());
    shards = std::make_unique<Shards>(target, options);
    shards->writer.begin(stem);
  });
  const auto take = [&](const std::string& name, const Tensor& whole) {
    const NamedTensor stored = stored_form(forms, names, name, whole);
    shards->writer.add(stem, stored.name, stored.tensor);
  };
  const auto write_if_full = [&] {
    std::vector<int64_t> full = {shards && shards->writer.is_full()};
    group.all_reduce(full, CollectiveOp::max);
    if (full[0]) on_rank_0([&] { shards->writer.write(); });
  };
  join_weights(session, names.held, take, write_if_full);
  on_rank_0([&] {
    shards->writer.finish();
    shards->folder.commit();
  });
}

void save_file(const BoostedModel& model, const fs::path& target) {
  const Session& session = model.session();
  const Group group = session.plugin->group();
  const Names names = names_of(model);
  const FileForms forms(model.unwrap().module());
  TensorMap whole;  // on rank 0
  const auto take = [&](const std::string& name, const Tensor& tensor) {
    const NamedTensor stored = stored_form(forms, names, name, tensor);
    whole.emplace(stored.name, stored.tensor);
  };
  join_weights(session, names.held, take, [] {});
  const auto write = [&] {
    if (target.has_parent_path()) make_folders(target.parent_path());
    save_safetensors(target, whole, {{"format", "pt"}});
  };
  finish_together(group, "save_model", group.rank() == 0 ? write : std::function<void()>());
}

}  // namespace

void save_model(const BoostedModel& model, const fs::path& checkpoint,
                const SaveModelOptions& options) {
  check_options(checkpoint, options);
  if (options.shard) save_shards(model, checkpoint, options);
  else save_file(model, checkpoint);
}

namespace {

std::vector<std::string> names_in(const TensorMap& tensors) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : tensors) names.push_back(name);
  return names;
}

// Converts tensors of files to tensors of a session, with the session's names.
class FromFiles {
 public:
  FromFiles(Module& model, const Names& names, const ModelFiles& files) : names_(names) {
    StoredShapes shapes;
    for (const fs::path& path : files.files) {
      const SafetensorsFile file(path);
      for (const StoredTensor& tensor : file.tensors()) shapes.emplace(tensor.name, tensor.shape);
    }
    wrapper_ = wrapper_of(shapes, model);
    StoredShapes unwrapped;
    for (auto& [name, shape] : shapes) unwrapped.emplace(without(wrapper_, name), std::move(shape));
    forms_.emplace(model, unwrapped);
  }

  // Converts the tensors of one file. Throws an Error of kind data if two different tensors have
  // one name.
  TensorMap operator()(const fs::path& file, TensorMap stored) const {
    TensorMap renamed;
    while (!stored.empty()) {  // holds two forms of only one tensor at a time
      const auto one = stored.extract(stored.begin());
      const NamedTensor tensor = {without(wrapper_, one.key()), one.mapped()};
      const NamedTensor own = forms_->from_file(tensor);
      if (!own.tensor.defined()) continue;
      const auto known = names_.all.find(own.name);
      add(renamed, known == names_.all.end() ? own.name : known->second, own.tensor,
          file.string());
    }
    return renamed;
  }

  static void add(TensorMap& tensors, const std::string& name, const Tensor& tensor,
                  const std::string& what) {
    const auto [before, is_new] = tensors.emplace(name, untracked::contiguous(tensor));
    if (!is_new && !same(before->second, untracked::contiguous(tensor)))
      fail_data("{}: two tensors stand for {}, and differ", what, name);
  }

 private:
  static bool same(const Tensor& a, const Tensor& b) {
    return a.dtype() == b.dtype() && a.shape() == b.shape() &&
           std::memcmp(a.data(), b.data(), static_cast<size_t>(a.bytes())) == 0;
  }

  const Names& names_;
  std::string wrapper_;
  std::optional<FileForms> forms_;
};

// The ranks that load a model, and the part of whole tensors that each of them keeps.
struct Loading {
  Group group;
  std::function<TensorMap(const TensorMap& whole)> split;
};

// Returns this rank's part of the tensors in the files, by the session's names.
TensorMap read_weights(Module& model, const Names& names, const Loading& ranks,
                       const fs::path& checkpoint) {
  const Group& group = ranks.group;
  const auto alike = [&](const std::function<void()>& work) {
    finish_together(group, "load_model", work);
  };
  ModelFiles found;
  std::optional<FromFiles> from_files;
  alike([&] {
    found = find_model_files(checkpoint);
    from_files.emplace(model, names, found);
  });
  TensorMap held;
  uint64_t bytes = 0;
  for (const fs::path& file : found.files) {
    TensorMap own;
    alike([&] {
      TensorMap stored = load_safetensors(file);
      check_against_index(found, file, names_in(stored));
      for (const auto& [name, tensor] : stored) bytes += static_cast<uint64_t>(tensor.bytes());
      own = (*from_files)(file, std::move(stored));
    });
    run_together(group, "load_model", [&] {
      for (const auto& [name, tensor] : ranks.split(own))
        FromFiles::add(held, name, tensor, checkpoint.string());
    });
  }
  alike([&] { check_total_size(found, bytes); });
  return held;
}

// Returns which of the model's tensors `got` lacks, and which of `got` the model lacks.
NameDifferences differences(const Names& names, const TensorMap& got,
                            const std::set<std::string>& optional) {
  NameDifferences found;
  std::set<std::string> known;
  for (const auto& [name, tensor] : names.held) {
    known.insert(name);
    const std::string& own = names.own.at(name);
    if (!got.contains(name) && !optional.contains(own)) found.missing.push_back(own);
  }
  for (const auto& [name, tensor] : got)
    if (!known.contains(name)) found.unexpected.push_back(name);
  return found;
}

// Checks the names, shapes and dtypes of `got`. Any floating dtype fits a floating tensor: it is
// converted. `optional`: tensors that files may lack, by the model's names.
void check_fit(const Names& names, TensorMap& got, const std::string& what, bool strict,
               const std::set<std::string>& optional) {
  TensorForms wanted;
  for (const auto& [name, tensor] : names.held) {
    const auto found = got.find(name);
    const bool may_lack = !strict || optional.contains(names.own.at(name));
    if (may_lack && found == got.end()) continue;
    const bool converts =
        found != got.end() && is_floating(tensor.dtype()) && is_floating(found->second.dtype());
    wanted.emplace(name,
                   TensorForm{tensor.shape(), converts ? found->second.dtype() : tensor.dtype()});
  }
  if (!strict) std::erase_if(got, [&](const auto& one) { return !wanted.count(one.first); });
  if (wanted.empty()) fail_data("{}: holds no tensor of the model", what);
  check_tensors(wanted, got, what);
}

}  // namespace

namespace {

// Reads the files, checks them and writes the model's tensors. Calls `settle` before it writes.
NameDifferences load(Module& model, const Names& names, const Loading& ranks,
                     const fs::path& checkpoint, bool strict,
                     const std::function<void()>& settle) {
  const std::set<std::string> optional = model.optional_names();
  TensorMap held = read_weights(model, names, ranks, checkpoint);
  const NameDifferences found = differences(names, held, optional);
  run_together(ranks.group, "load_model",
               [&] { check_fit(names, held, checkpoint.string(), strict, optional); });
  settle();
  const NoGradGuard no_grad;
  for (const auto& [name, tensor] : names.held)
    if (const auto one = held.find(name); one != held.end()) tensor.detach().copy_(one->second);
  return found;
}

}  // namespace

NameDifferences load_model(const BoostedModel& model, const fs::path& checkpoint, bool strict) {
  const Session& session = model.session();
  const auto split = [&](const TensorMap& whole) { return split_model(session, whole); };
  return load(model.unwrap().module(), names_of(model), {session.plugin->group(), split},
              checkpoint, strict, [&] { settle(session); });
}

NameDifferences load_model(const Model& model, const fs::path& checkpoint, bool strict) {
  const auto split = [](const TensorMap& whole) { return whole; };
  return load(model.module(), names_of(model, model), {Group(), split}, checkpoint, strict, [] {});
}

namespace {

// Name prefixes of PyTorch's DistributedDataParallel, DataParallel and torch.compile.
constexpr const char* wrappers[] = {"module.", "_orig_mod."};

// Returns the folder's index, or its only safetensors file.
fs::path entry_of(const fs::path& folder) {
  std::vector<fs::path> indexes, files;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (is_index(entry.path())) indexes.push_back(entry.path());
    else if (name.ends_with(".safetensors")) files.push_back(entry.path());
  }
  for (const char* name : {"model.safetensors.index.json", "model.safetensors"})
    if (fs::exists(folder / name)) return folder / name;
  if (indexes.size() == 1) return indexes[0];
  if (indexes.empty() && files.size() == 1) return files[0];
  fail_data("{}: which model is meant? got {} indexes and {} safetensors files, want one, or {}",
            folder.string(), indexes.size(), files.size(), "model.safetensors");
}

}  // namespace

std::string wrapper_of(const StoredShapes& stored, const Module& model) {
  const auto begins = [](const std::string& wrapper) {
    return [&wrapper](const auto& one) { return one.first.starts_with(wrapper); };
  };
  std::map<std::string, Tensor> own;
  for (const auto& [name, tensor] : model.state_dict()) own.emplace(name, tensor);
  for (const std::string wrapper : wrappers)
    if (!stored.empty() && std::ranges::all_of(stored, begins(wrapper)) &&
        std::ranges::none_of(own, begins(wrapper)))
      return wrapper;
  return "";
}

std::string without(const std::string& wrapper, const std::string& name) {
  return name.substr(wrapper.size());
}

bool is_index(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.find(".index.") != name.npos && name.ends_with(".json");
}

ModelFiles find_model_files(const fs::path& path) {
  std::error_code error;
  const fs::path entry = fs::is_directory(path, error) ? entry_of(path) : path;
  if (!is_index(entry)) return {{}, {}, {entry}};
  ModelFiles model{entry, read_shard_index(entry), {}};
  const fs::path folder = entry.has_parent_path() ? entry.parent_path() : ".";
  for (const std::string& name : model.index->files())
    model.files.push_back(shard_beside(folder, name));
  return model;
}

void check_against_index(const ModelFiles& model, const fs::path& file,
                         const std::vector<std::string>& tensors) {
  if (model.index) check_shard(*model.index, file, tensors);
}

void check_total_size(const ModelFiles& model, uint64_t bytes) {
  if (!model.index || model.index->total_size == 0 || model.index->total_size == bytes) return;
  fail_data("{}: total_size; got {}, want {}, the bytes of its tensors", model.index_path.string(),
            model.index->total_size, bytes);
}

}  // namespace booster
