#include "booster/config.h"

#include "booster/config_layout.h"
#include "booster/overrides.h"

#include <algorithm>

namespace booster {

namespace {

using Json = nlohmann::json;

Json checked(JsonValue root, const std::string& file, const std::vector<std::string>& overrides) {
  if (root.kind == JsonKind::object) {
    for (const auto& text : overrides) apply_override(root, text);
  }
  return checked_section(config_layout(), &root, file);
}

}  // namespace

Config::Config() : values_(checked_section(config_layout(), nullptr, "")) {}

Config Config::from_file(const std::filesystem::path& path,
                         const std::vector<std::string>& overrides) {
  return Config(checked(read_json(path), path.string(), overrides));
}

Config Config::from_text(std::string_view text, const std::string& name,
                         const std::vector<std::string>& overrides) {
  return Config(checked(parse_json(text, name), name, overrides));
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
