#include "booster/checkpoint/averages.h"
#include "booster/checkpoint/folder/checkpoint.h"
#include "booster/checkpoint/folder/checkpoint_files.h"
#include "booster/checkpoint/folder/manifest.h"
#include "booster/checkpoint/model_files.h"
#include "booster/config/config.h"
#include "booster/config/pretrained.h"
#include "core/data/images/image.h"
#include "core/data/images/image_limits.h"
#include "platform/files/file.h"
#include "platform/json/json_text.h"
#include "platform/warn.h"
#include "tools/commands/commands.h"
#include "tools/report/run_folder.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

namespace booster::cli {

namespace {

struct ExportArguments {
  std::string checkpoint;    // or a training, or a model's own files
  std::string file, config;  // without a config, the run.json above the checkpoint has it
  bool averages = false;     // export the averaged weights (train.ema_decay)
};

namespace fs = std::filesystem;
using ReadJson = nlohmann::json;
using report::part_of;

constexpr size_t longest_record = size_t{64} << 20;
// A graph takes any number of tokens; the model is traced on short texts.
constexpr int64_t traced_tokens = 16;

std::map<std::string, Tensor> read_weights(const fs::path& path, bool averages) {
  if (is_checkpoint(path)) verify_checkpoint(path);
  std::map<std::string, Tensor> weights;
  for (const fs::path& file : find_model_files(path).files)
    for (auto& [name, tensor] : load_safetensors(file)) weights.emplace(name, tensor);
  if (averages)
    for (const auto& [name, average] : averages_in(path)) weights[name] = average;
  return weights;
}

// Reads a program's config, or run.json, which has one.
ReadJson read_config(const fs::path& file) {
  const ReadJson json = json_if_whole(read_file(file, longest_record));
  const ReadJson& config = json.is_object() && json.contains("config") ? json["config"] : json;
  check(config.is_object() && config.contains("model"),
        "export: {}: no model; want a JSON config, or the run.json of a training", file.string());
  return config;
}

// Returns the model of the config, with as many outputs as the weights have.
Model model_of(const Config& config, const std::map<std::string, Tensor>& weights) {
  Config exported = config.with("model.weights", nullptr).with("device", "cpu");
  for (const char* head : {"head.weight", "fc.weight"})
    if (const auto found = weights.find(head);
        found != weights.end() && config.has("model.num_classes"))
      exported = exported.with("model.num_classes", found->second.size(0));
  const Model model = make_model(exported);
  model.load_state_dict(weights);
  return model;
}

// Returns the shape of one image or row.
Shape sample_of(const Config& config, const ReadJson& data) {
  if (config.has("model.img_size")) {
    const auto side = config.get<int64_t>("model.img_size");
    return {3, side, side};
  }
  if (config.has("model.in_chans")) return {config.get<int64_t>("model.in_chans"), 32, 32};
  for (const char* tokens : {"model.n_positions", "model.max_position_embeddings"})
    if (config.has(tokens)) return {std::min(traced_tokens, config.get<int64_t>(tokens))};
  if (!config.has("model.sizes"))
    fail(
        "export: model.name: unknown sample shape; got {}, want a Vision Transformer, a "
        "language model, resnet20 or mlp",
        config.get<std::string>("model.name"));
  const int64_t features = config.get<std::vector<int64_t>>("model.sizes").front();
  const ReadJson& side = part_of(data, {"img_size"});
  const int64_t pixels = side.is_number_integer() ? side.get<int64_t>() : 0;
  const bool is_side = pixels > 0 && pixels <= image_limits::side;
  if (is_side && config.get<bool>("model.flatten") && 3 * pixels * pixels == features)
    return {3, pixels, pixels};
  return {features};
}

std::vector<std::string> classes_of(const fs::path& checkpoint) {
  if (!is_checkpoint(checkpoint)) return {};
  const ReadJson state = CheckpointReader(checkpoint).state();
  std::vector<std::string> classes;
  for (const ReadJson& name : part_of(state, {"extra", "classes"}))
    if (name.is_string()) classes.push_back(name.get<std::string>());
  return classes;
}

// Returns the folder with a language model's config.json: `path`, or the one that a training left
// in it. Empty: none.
fs::path pretrained_in(const fs::path& path) {
  std::error_code error;
  for (const fs::path& folder : {path, path / "model"})
    if (fs::is_regular_file(folder / "config.json", error)) return folder;
  return {};
}

void report_export(const ExportArguments& what, const std::string& model, const fs::path& weights,
                   int64_t parameters, const Shape& sample) {
  fmt::print("{}: {} of {}{}, {:.2f} M parameters; input (batch, {})\n", terminal_text(what.file),
             model, terminal_text(weights.string()), what.averages ? " (averages)" : "",
             static_cast<double>(parameters) * 1e-6, fmt::join(sample, ", "));
}

void check_averages(const ExportArguments& what, bool has_averages) {
  check(!what.averages || has_averages,
        "export: --averages: no averages in a model's files; want a checkpoint");
}

int export_pretrained(const ExportArguments& what, const fs::path& folder) {
  check_averages(what, false);
  const Model model = from_pretrained(folder);
  const Shape sample = {std::min(traced_tokens, model->example_input(1).size(1))};
  export_onnx(model, sample, what.file);
  report_export(what, model->kind(), folder, model->parameter_count(), sample);
  return 0;
}

int export_model(const ExportArguments& what) {
  std::error_code error;
  check(fs::exists(what.checkpoint, error), "export: no such file or folder; got {}",
        what.checkpoint);
  if (const fs::path folder = pretrained_in(what.checkpoint);
      !folder.empty() && what.config.empty())
    return export_pretrained(what, folder);
  const WeightsSource source = find_weights(what.checkpoint, warn);
  check_averages(what, is_checkpoint(source.weights));
  check(!what.config.empty() || !source.run.empty(),
        "export: no config; want --config FILE, because the weights' folder and its parent have no "
        "run.json");
  const fs::path file_of_config =
      what.config.empty() ? source.run / "run.json" : fs::path(what.config);
  const ReadJson json = read_config(file_of_config);
  // Drops the other settings: they may name libraries and strategies that do not exist here.
  const Config config =
      Config::from_text(ReadJson{{"model", json["model"]}}.dump(), file_of_config.string());
  const Shape sample = sample_of(config, part_of(json, {"data"}));
  const Model model = model_of(config, read_weights(source.weights, what.averages));
  export_onnx(model, sample, what.file, {.classes = classes_of(source.weights)});
  report_export(what, config.get<std::string>("model.name"), source.weights,
                model->parameter_count(), sample);
  return 0;
}

}  // namespace

Action export_command(CLI::App& line) {
  const auto exported = std::make_shared<ExportArguments>();
  line.add_option(
          "CHECKPOINT", exported->checkpoint,
          "the output_dir of a training, a checkpoint, a safetensors file, or a folder with a "
          "language model's config.json")
      ->required();
  line.add_option("FILE", exported->file, "the ONNX file")->required();
  line.add_option("--config", exported->config,
                  "the training's config (default: the one in the run.json above CHECKPOINT)");
  line.add_flag("--averages", exported->averages,
                "export the averages of the weights that train.ema_decay keeps");
  return [exported](const Words&) { return export_model(*exported); };
}

}  // namespace booster::cli
