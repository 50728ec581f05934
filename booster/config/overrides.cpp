#include "booster/config/overrides.h"

#include "platform/json/json_document.h"

#include <algorithm>
#include <utility>

namespace booster {

namespace {

// The same depth limit as for files; every later walk over the tree recurses.
constexpr size_t most_levels = JsonLimits{}.depth;
// Far more than a config has; a key is searched linearly in its object.
constexpr size_t most_keys = 1000;

JsonValue text_value(const std::string& text) {
  JsonValue value;
  value.kind = JsonKind::string;
  value.scalar = text;
  return value;
}

JsonValue list_value(const std::string& text) {
  JsonValue list;
  list.kind = JsonKind::array;
  for (size_t begin = 1; begin <= text.size();) {
    const size_t end = std::min(text.find('\0', begin), text.size());
    list.items.push_back(text_value(text.substr(begin, end - begin)));
    begin = end + 1;
  }
  return list;
}

JsonValue parse_override_value(const std::string& text, const std::string& origin) {
  if (text.starts_with('\0')) return list_value(text);
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

JsonValue& member(JsonValue& object, const std::string& key, const std::string& origin) {
  if (JsonValue* found = object.find(key)) return *found;
  check(object.items.size() < most_keys, "{}: too many keys in one object; want at most {}", origin,
        most_keys);
  JsonValue& added = object.items.emplace_back();
  added.key = key;
  added.kind = JsonKind::object;
  return added;
}

// Expands a name in short form to the object that it abbreviates, so that options can be added.
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

}  // namespace

void apply_override(JsonValue& root, const std::string& text) {
  const std::string shown = text.substr(0, text.find('\0'));
  const std::string origin =
      "--set " + (shown.size() <= 100 ? shown : shown.substr(0, 100) + "...");
  const size_t equals = text.find('=');
  check(equals != 0, "{}: no key; want --set key.path=value", origin);
  check(equals != text.npos, "{}: no value; want --set key.path=value", origin);
  const auto levels = static_cast<size_t>(std::count(text.data(), text.data() + equals, '.')) + 1;
  check(levels <= most_levels, "{}: nested too deep; got {} levels, want at most {}", origin,
        levels, most_levels);
  JsonValue* place = &root;
  for (size_t begin = 0; begin <= equals;) {
    const size_t end = std::min(text.find('.', begin), equals);
    const std::string key = text.substr(begin, end - begin);
    check(!key.empty(), "{}: empty key; want --set key.path=value", origin);
    lengthen(*place);
    check(place->kind == JsonKind::object, "{}: {}: wrong type; got {}, want an object", origin,
          text.substr(0, begin - 1), show_value(*place));
    place = &member(*place, key, origin);
    if (place->origin.empty() && place->position.line == 0) place->origin = origin;
    begin = end + 1;
  }
  const std::string key = place->key;
  *place = parse_override_value(text.substr(equals + 1), origin);
  place->key = key;
  set_origin(*place, origin);
}

}  // namespace booster
