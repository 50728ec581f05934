#include "booster/config/config.h"

#include "booster/config/config_layout.h"
#include "booster/config/json_document.h"
#include "booster/config/library.h"
#include "booster/config/overrides.h"
#include "booster/config/registry.h"
#include "booster/pairing.h"
#include "mixed_precision/precision.h"

#include <algorithm>

namespace booster {

namespace {

using Json = nlohmann::json;

// Checks that only the strategy can make: whether its options are compatible.
void check_precision(const Json& values, const JsonValue& root, const std::string& file) {
  try {
    precision_registry().make(OptionValues(values));
  } catch (const Error& error) {
    const JsonValue* booster = root.find("booster");
    const JsonValue* place = booster ? booster->find("mixed_precision") : nullptr;
    fail("{}: booster.mixed_precision: {}", place_of(file, place ? *place : root), error.what());
  }
}

// Runs before the layout is built, since the names they add are legal in the rest of the config.
void load_libraries(const JsonValue& root, const std::string& file) {
  const JsonValue* section = root.find("booster");
  const JsonValue* libraries = section ? section->find("libraries") : nullptr;
  if (!libraries) return;
  checked_value(libraries_option(), *libraries, file, "booster");
  for (const JsonValue& library : libraries->items) {
    try {
      load_library(library.scalar.get<std::string>());
    } catch (const Error& error) {
      fail("{}: booster.libraries: {}", place_of(file, library), error.what());
    }
  }
}

Json checked(JsonValue root, const std::string& file, const std::vector<std::string>& overrides,
             const ProgramConfig& program) {
  if (root.kind == JsonKind::object) {
    for (const auto& text : overrides) apply_override(root, text);
  }
  load_libraries(root, file);
  Json values = checked_section(config_layout(program), &root, file);
  check_precision(values.at("booster").at("mixed_precision"), root, file);
  return values;
}

}  // namespace

Config::Config() : values_(checked_section(config_layout(), nullptr, "")) {}

Config Config::from_file(const std::filesystem::path& path,
                         const std::vector<std::string>& overrides,
                         const ProgramConfig& program) {
  return Config(checked(read_json(path), path.string(), overrides, program));
}

Config Config::from_text(std::string_view text, const std::string& name,
                         const std::vector<std::string>& overrides,
                         const ProgramConfig& program) {
  return Config(checked(parse_json(text, name), name, overrides, program));
}

std::vector<std::string> check_objects(const Config& config) {
  const auto plugin = plugin_registry().make(config.options("booster.plugin"));
  const auto precision = precision_registry().make(config.options("booster.mixed_precision"));
  check_pair(*precision, *plugin, typical_layout(*plugin));
  return precision->notes();
}

std::pair<std::string, std::string> Config::split(const std::string& path) {
  const size_t dot = path.rfind('.');
  if (dot == path.npos) return {"", path};
  return {path.substr(0, dot), path.substr(dot + 1)};
}

bool Config::has(const std::string& path) const {
  std::string pointer = "/" + path;
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  return values_.contains(Json::json_pointer(pointer));
}

OptionValues Config::options(const std::string& section) const {
  if (section.empty()) return OptionValues(values_);
  check(has(section), "config: unknown section; got {}", section);
  std::string pointer = "/" + section;
  std::replace(pointer.begin(), pointer.end(), '.', '/');
  return OptionValues(values_.at(Json::json_pointer(pointer)));
}

}  // namespace booster
