#include "booster/checkpoint/folder/checkpoint.h"
#include "booster/checkpoint/folder/checkpoint_files.h"
#include "booster/checkpoint/folder/manifest.h"
#include "booster/checkpoint/model_files.h"
#include "booster/checkpoint/safetensors/safetensors.h"
#include "booster/checkpoint/safetensors/safetensors_file.h"
#include "platform/json/json_document.h"
#include "platform/warn.h"
#include "tools/commands/commands.h"
#include "tools/commands/inspect_flight.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

namespace booster::cli {

namespace {

namespace fs = std::filesystem;

// Returns a name unchanged unless it is too long, empty, or could confuse a terminal.
std::string plain(const std::string& name) {
  const bool shows = !name.empty() && name.size() <= 200 && terminal_text(name) == name;
  return shows ? name : show_text(name);
}

// Escapes control characters and others that a terminal may interpret.
template <class Json>
std::string in_ascii(const Json& json) {
  return json.dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

SafetensorsFile print_tensors(const fs::path& path) {
  SafetensorsFile file(path);
  uint64_t elements = 0, bytes = 0;
  size_t widest = 4;
  for (const auto& tensor : file.tensors()) widest = std::max(widest, plain(tensor.name).size());
  fmt::print("{}\n", terminal_text(path.string()));
  for (const auto& [key, value] : file.metadata())
    fmt::print("  metadata {} = {}\n", plain(key), show_text(value));
  for (const auto& tensor : file.tensors()) {
    uint64_t n = 1;
    for (const uint64_t size : tensor.shape) n *= size;
    elements += n;
    bytes += tensor.end - tensor.begin;
    fmt::print("  {:<{}}  {:<5} {:<20} {:>12} bytes at [{}, {})\n", plain(tensor.name), widest,
               tensor.dtype->name, shape_text(tensor.shape), tensor.end - tensor.begin,
               tensor.begin, tensor.end);
  }
  fmt::print("  {} tensors, {} elements, {} bytes: valid\n", file.tensors().size(), elements,
             bytes);
  return file;
}

bool holds_tensors(const ManifestFile& file) {
  return fs::path(file.name).extension() == ".safetensors";
}

void print_checkpoint(const fs::path& folder) {
  const Manifest manifest = verify_checkpoint(folder);
  fmt::print("{}: checkpoint of step {}\n", terminal_text(folder.string()), manifest.step);
  for (const auto& file : manifest.files) {
    fmt::print("  {:<24} {:>12} bytes  sha256 {}\n", plain(file.name), file.bytes, file.sha256);
  }
  if (!manifest.about.empty()) fmt::print("  about {}\n", in_ascii(manifest.about));
  for (const auto& file : manifest.files)
    if (holds_tensors(file)) print_tensors(folder / file.name);
}

using Json = nlohmann::ordered_json;

Json json_of_tensors(const SafetensorsFile& file, const fs::path& path) {
  Json tensors = Json::array();
  for (const auto& tensor : file.tensors())
    tensors.push_back({{"name", tensor.name},
                       {"dtype", tensor.dtype->name},
                       {"shape", tensor.shape},
                       {"begin", tensor.begin},
                       {"end", tensor.end}});
  return {{"path", path.string()}, {"metadata", file.metadata()}, {"tensors", tensors}};
}

Json json_of_checkpoint(const fs::path& folder) {
  const Manifest manifest = verify_checkpoint(folder);
  Json files = Json::array(), tensors = Json::array();
  for (const auto& file : manifest.files) {
    files.push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
    if (holds_tensors(file)) {
      const fs::path path = folder / file.name;
      tensors.push_back(json_of_tensors(SafetensorsFile(path), path));
    }
  }
  return {{"path", folder.string()},
          {"step", manifest.step},
          {"about", manifest.about},
          {"files", files},
          {"tensor_files", tensors}};
}

void print(const Json& json) { fmt::print("{}\n", in_ascii(json)); }

// Calls `read` for each file of the model, and checks all of them against the index.
void read_model(const ModelFiles& model,
                const std::function<SafetensorsFile(const fs::path& file)>& read) {
  uint64_t bytes = 0;
  for (const fs::path& path : model.files) {
    const SafetensorsFile file = read(path);
    std::vector<std::string> names;
    for (const StoredTensor& tensor : file.tensors()) {
      names.push_back(tensor.name);
      bytes += tensor.end - tensor.begin;
    }
    check_against_index(model, path, names);
  }
  check_total_size(model, bytes);
}

void print_model(const ModelFiles& model) {
  read_model(model, print_tensors);
  if (model.index)
    fmt::print("{}: {} tensors in {} files: valid\n", terminal_text(model.index_path.string()),
               model.index->weight_map.size(), model.files.size());
}

Json json_of_model(const ModelFiles& model) {
  Json files = Json::array();
  read_model(model, [&](const fs::path& path) {
    SafetensorsFile file(path);
    files.push_back(json_of_tensors(file, path));
    return file;
  });
  if (!model.index) return files[0];
  return {{"path", model.index_path.string()},
          {"total_size", model.index->total_size},
          {"tensor_files", files}};
}

// Returns the folder itself, or the newest checkpoint in it; nothing if it only holds a model's
// files.
std::optional<fs::path> checkpoint_in(const fs::path& folder) {
  if (fs::exists(folder / manifest_name)) return folder;
  const auto latest = latest_checkpoint(folder, warn);
  if (latest) return *latest;
  for (const auto& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".safetensors" || is_index(entry.path())) return {};
  fail_data("{}: nothing to inspect in this folder; want {}, folders step-N, or files of a model",
            folder.string(), manifest_name);
}

int inspect(const std::string& path, bool json) {
  std::error_code error;
  const bool is_folder = fs::is_directory(path, error);
  if (holds_flight_records(path)) {
    check(!json, "inspect: --json: not for flight records, which are already JSON; want no --json");
    print_flight_records(path);
    return 0;
  }
  if (const auto checkpoint = is_folder ? checkpoint_in(path) : std::nullopt) {
    json ? print(json_of_checkpoint(*checkpoint)) : print_checkpoint(*checkpoint);
  } else {
    const ModelFiles model = find_model_files(path);
    json ? print(json_of_model(model)) : print_model(model);
  }
  return 0;
}

}  // namespace

Action inspect_command(CLI::App& line) {
  struct Values {
    std::string path;
    bool json = false;
  };
  const auto values = std::make_shared<Values>();
  line.add_option("PATH", values->path, "file or folder")->required();
  add_json(line, values->json);
  return [values](const Words&) { return inspect(values->path, values->json); };
}

}  // namespace booster::cli
