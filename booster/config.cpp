#include "booster/config.h"

#include "booster/config_layout.h"

#include <algorithm>

namespace booster {

namespace {

using Json = nlohmann::json;

// --- overrides

JsonValue text_value(const std::string& text) {
  JsonValue value;
  value.kind = JsonKind::string;
  value.scalar = text;
  return value;
}

JsonValue parse_override_value(const std::string& text, const std::string& origin) {
  try {
    return parse_json(text, origin);
  } catch (const Error&) {
    return text_value(text);
  }
}

void set_origin(JsonValue& value, const std::string& origin) {
  value.origin = origin;
  for (auto& item : value.items) set_origin(item, origin);
}

JsonValue& member(JsonValue& object, const std::string& key) {
  if (JsonValue* found = object.find(key)) return *found;
  JsonValue& added = object.items.emplace_back();
  added.key = key;
  added.kind = JsonKind::object;
  return added;
}

// A name in its short form becomes the object that it stands for, so that options can be added.
void lengthen(JsonValue& value) {
  if (value.kind != JsonKind::string) return;
  JsonValue name = std::move(value);
  value = JsonValue{};
  value.kind = JsonKind::object;
  value.key = std::exchange(name.key, "name");
  value.key_position = name.key_position;
  value.position = name.position;
  value.origin = name.origin;
  value.items.push_back(std::move(name));
}

void apply_override(JsonValue& root, const std::string& text) {
  const std::string origin = "--set " + (text.size() <= 100 ? text : text.substr(0, 100) + "...");
  const size_t equals = text.find('=');
  check(equals != text.npos && equals > 0, "{}: no value; want --set key.path=value", origin);
  JsonValue* place = &root;
  for (size_t begin = 0; begin <= equals;) {
    const size_t end = std::min(text.find('.', begin), equals);
    const std::string key = text.substr(begin, end - begin);
    check(!key.empty(), "{}: empty key; want --set key.path=value", origin);
    lengthen(*place);
    check(place->kind == JsonKind::object, "{}: {}: wrong type; got {}, want an object", origin,
          text.substr(0, begin - 1), show_value(*place));
    place = &member(*place, key);
    if (place->origin.empty() && place->position.line == 0) place->origin = origin;
    begin = end + 1;
  }
  const std::string key = place->key;
  *place = parse_override_value(text.substr(equals + 1), origin);
  place->key = key;
  set_origin(*place, origin);
}

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
