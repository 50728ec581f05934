#include "booster/config/pretrained.h"

#include "booster/checkpoint/model_files.h"
#include "booster/checkpoint/safetensors/safetensors.h"
#include "booster/checkpoint/start_weights.h"
#include "booster/config/hub_config.h"
#include "booster/config/options/option_tables.h"
#include "booster/config/registry.h"
#include "booster/training/session.h"
#include "core/nn/joined_traits.h"
#include "core/nn/module_traits.h"
#include "core/tensor/tensor.h"
#include "platform/files/atomic_file.h"
#include "platform/files/file.h"
#include "platform/json/json_document.h"

#include <algorithm>

namespace booster {

namespace fs = std::filesystem;

namespace {

// Hugging Face's files list labels and generation options too.
constexpr JsonLimits config_limits = {.bytes = size_t{16} << 20, .depth = 64, .nodes = 2'000'000};

// Returns the values of a model's options: those of the file, else defaults.
OptionValues values_of(const RegistryEntry<Model>& entry, const JsonValue& given,
                       const std::string& file) {
  Mistakes mistakes(file, &given);
  nlohmann::json values = default_values(entry.options);
  for (const Option& option : entry.options)
    if (const JsonValue* value = given.find(option.name))
      values[option.name] = checked_value(option, *value, "", mistakes);
  try {
    mistakes.raise();
  } catch (const Error& error) {
    throw Error(error.what(), ErrorKind::data);
  }
  return OptionValues(values);
}

std::string options_text(const nlohmann::json& options) {
  try {
    return options.dump();
  } catch (const nlohmann::json::exception& error) {  // text that is not UTF-8
    fail("from_pretrained: options: {}", json_problem(error));
  }
}

// Replaces options of a config.json by the program's.
void replace_options(JsonValue& options, const RegistryEntry<Model>& entry,
                     const nlohmann::json& given) {
  std::vector<std::string> names;
  for (const Option& option : entry.options) names.push_back(option.name);
  for (JsonValue value : parse_json(options_text(given), "from_pretrained: options").items) {
    check(std::ranges::find(names, value.key) != names.end(),
          "from_pretrained: a {} has no such option; got {}{}", entry.name, value.key,
          legal_names(value.key, names));
    value.origin = "from_pretrained: options";
    std::erase_if(options.items, [&](const JsonValue& one) { return one.key == value.key; });
    options.items.push_back(std::move(value));
  }
}

// Removes the keys that options in other forms replace.
void drop_replaced(JsonValue& config, const nlohmann::json& given) {
  for (const auto& [key, option] : {std::pair{"architectures", "architecture"},
                                    {"id2label", "id2label"},
                                    {"id2label", "num_labels"}})
    if (given.contains(option))
      std::erase_if(config.items, [&](const JsonValue& one) { return one.key == key; });
}

bool asks_for_a_head(const nlohmann::json& options) {
  return options.contains("architecture") || options.contains("num_labels") ||
         options.contains("id2label");
}

Model made_of(JsonValue config, const std::string& file, const nlohmann::json& given = {}) {
  drop_replaced(config, given);
  HubConfig known = hub_config(config, file);
  const RegistryEntry<Model>& entry = model_registry().find(known.type);
  if (!given.empty()) replace_options(known.options, entry, given);
  try {
    return entry.make(values_of(entry, known.options, file));
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::data) throw;
    fail_data("{}: {}", file, error.what());
  }
}

TensorMap in_file_form(const Model& model) {
  const FileForms forms(model.module());
  TensorMap tensors;
  for (const auto& own : model.state_dict()) {
    const NamedTensor stored = forms.to_file(own);
    tensors.emplace(stored.name, untracked::contiguous(untracked::to(stored.tensor, Device{})));
  }
  return tensors;
}

void add_ids(std::vector<int32_t>& ids, const JsonValue& value) {
  if (value.kind == JsonKind::integer) ids.push_back(value.scalar.get<int32_t>());
  for (const JsonValue& item : value.items) add_ids(ids, item);
}

}  // namespace

std::string load_weights(const Model& model, const fs::path& path) {
  return load_start_weights(model, path).to_string();
}

Model model_of_config(const fs::path& config_json) {
  return made_of(read_json(config_json, config_limits, ErrorKind::data), config_json.string());
}

Model from_pretrained(const fs::path& folder, DType dtype) {
  return from_pretrained(folder, PretrainedOptions{.dtype = dtype});
}

Model from_pretrained(const fs::path& folder, const PretrainedOptions& options) {
  const DType dtype = options.dtype;
  check(options.options.is_object() || options.options.empty(),
        "from_pretrained: options; got {}, want an object", options_text(options.options));
  check(is_floating(dtype), "from_pretrained: dtype; got {}, want a floating one", name_of(dtype));
  const fs::path config = folder / "config.json";
  if (!is_there(config))
    fail_data(
        "from_pretrained: {} holds no config.json; want a folder of Hugging Face's "
        "transformers",
        folder.string());
  Model model = made_of(read_json(config, config_limits, ErrorKind::data), config.string(),
                        options.options);
  if (dtype != DType::f32) model->to(dtype);
  const StartWeights result = load_start_weights(model, folder);
  const bool may_be_new = asks_for_a_head(options.options);
  if ((!result.fresh.empty() && !may_be_new) || !result.unused.empty())
    fail_data("from_pretrained: {} does not fit the model of its config.json: {}", folder.string(),
              result.to_string());
  return model;
}

std::vector<int32_t> stop_tokens_of(const fs::path& folder) {
  for (const char* name : {"generation_config.json", "config.json"}) {
    if (!is_there(folder / name)) continue;
    const JsonValue config = read_json(folder / name, config_limits, ErrorKind::data);
    std::vector<int32_t> ids;
    if (const JsonValue* end = config.find("eos_token_id")) add_ids(ids, *end);
    if (!ids.empty()) return ids;
  }
  return {};
}

void save_pretrained(const BoostedModel& model, const fs::path& folder) {
  const std::string config = config_json_of(model.unwrap());  // throws before anything is written
  save_model(model, folder / "model.safetensors", {});
  if (model.session().plugin->group().rank() == 0) write_file(folder / "config.json", config);
}

void save_pretrained(const Model& model, const fs::path& folder) {
  const NoGradGuard no_grad;
  const std::string config = config_json_of(model);
  make_folders(folder);
  save_safetensors(folder / "model.safetensors", in_file_form(model), {{"format", "pt"}});
  write_file(folder / "config.json", config);
}

}  // namespace booster
