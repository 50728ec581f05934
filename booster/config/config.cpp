#include "booster/config/config.h"

#include "booster/config/check_together.h"
#include "booster/config/config_layout.h"
#include "booster/config/options/option_tables.h"
#include "booster/config/overrides.h"
#include "booster/config/pairing.h"
#include "booster/config/registry.h"
#include "mixed_precision/interface/precision.h"
#include "platform/json/json_document.h"

#include <algorithm>

namespace booster {

namespace {

using Json = nlohmann::json;

// Loads the config's libraries. Runs before the layout is built, since names from libraries are
// legal in the rest of the config.
void load_libraries(const JsonValue& root, Mistakes& mistakes) {
  const JsonValue* section = root.find("booster");
  const JsonValue* libraries = section ? section->find("libraries") : nullptr;
  if (!libraries) return;
  checked_value(libraries_option(), *libraries, "booster", mistakes);
  if (mistakes.any_in("booster.libraries")) return;
  for (const JsonValue& library : libraries->items) {
    try {
      load_library(library.scalar.get<std::string>());
    } catch (const Error& error) {
      mistakes.add(library, "booster.libraries", error.what());
    }
  }
}

void apply_overrides(JsonValue& root, const std::vector<std::string>& overrides,
                     Mistakes& mistakes) {
  if (root.kind != JsonKind::object) return;
  for (const auto& text : overrides) {
    try {
      apply_override(root, text);
    } catch (const Error& error) {
      mistakes.add_override(error.what());
    }
  }
}

Json::json_pointer pointer_to(const std::string& path) {
  std::string pointer = "/" + path;
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  return Json::json_pointer(pointer);
}

}  // namespace

Config::Config() : values_(checked_section(config_layout(), nullptr, "")) {}

Config Config::checked(JsonValue root, const std::string& file,
                       const std::vector<std::string>& overrides, const ProgramConfig& program) {
  Mistakes mistakes(file, &root);
  apply_overrides(root, overrides, mistakes);
  load_libraries(root, mistakes);
  if (mistakes.any_in("booster.libraries")) mistakes.raise();  // libraries define legal names
  const Section layout = config_layout(program);
  Config config(checked_section(layout, &root, mistakes));
  config.paths_ = path_pointers(layout);
  for (const JsonValue& member : root.items) config.given_.push_back(member.key);
  check_together(config, mistakes);
  if (program.check) program.check(config, mistakes);
  mistakes.raise();
  return config;
}

Config Config::from_file(const std::filesystem::path& path,
                         const std::vector<std::string>& overrides,
                         const ProgramConfig& program) {
  return checked(read_json(path), path.string(), overrides, program);
}

Config Config::from_text(std::string_view text, const std::string& name,
                         const std::vector<std::string>& overrides,
                         const ProgramConfig& program) {
  return checked(parse_json(text, name), name, overrides, program);
}

Json Config::without_paths() const {
  Json values = values_;
  for (const std::string& path : paths_) {
    const Json::json_pointer pointer(path);
    if (values.contains(pointer)) values.at(pointer.parent_pointer()).erase(pointer.back());
  }
  return values;
}

bool Config::gives(const std::string& section) const {
  return std::find(given_.begin(), given_.end(), section) != given_.end();
}

std::vector<std::string> check_objects(const Config& config) {
  const OptionValues options = config.options("booster.plugin");
  const auto& plugin = plugin_registry().find(options.get<std::string>("name"));
  const auto precision = precision_registry().make(config.options("booster.mixed_precision"));
  check_pair(*precision, plugin.name, typical_layout(plugin, options));
  if (config.gives("model")) {  // a strategy may refer to layers by name
    const LazyInit without_memory;  // a model may be larger than this machine
    const Model model = make_model(config);
    precision->check_fits(model);
    precision->prepare(model, {make_optimizer(config, model)});
  }
  auto notes = plugin_registry().idle_notes(options);
  for (std::string& note : precision->take_notes()) notes.push_back(std::move(note));
  return notes;
}

std::pair<std::string, std::string> Config::split(const std::string& path) {
  const size_t dot = path.rfind('.');
  if (dot == path.npos) return {"", path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

bool Config::has(const std::string& path) const { return values_.contains(pointer_to(path)); }

Config Config::with(const std::string& path, Json value) const {
  check(has(path), "config: unknown option; got {}", path);
  Config other = *this;
  other.values_.at(pointer_to(path)) = std::move(value);
  return other;
}

OptionValues Config::options(const std::string& section) const {
  if (section.empty()) return OptionValues(values_);
  check(has(section), "config: unknown section; got {}", section);
  return OptionValues(values_.at(pointer_to(section)));
}

}  // namespace booster
