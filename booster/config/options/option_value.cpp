// Checks one value of a config against its option.
#include "booster/config/checks/other_names.h"
#include "booster/config/options/option_tables.h"
#include "booster/config/options/options.h"
#include "booster/training/boosted.h"
#include "platform/environment.h"
#include "platform/json/json_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace booster {

namespace {

using Json = nlohmann::json;

// Accepts 1e4 for a whole number.
bool is_whole(const JsonValue& value) {
  if (value.kind == JsonKind::integer) return true;
  constexpr double exact = 9007199254740992.0;  // 2^53
  if (value.kind != JsonKind::number) return false;
  const double x = value.scalar.get<double>();
  return std::nearbyint(x) == x && std::fabs(x) <= exact;
}

bool is_number(const JsonValue& value) {
  return value.kind == JsonKind::integer || value.kind == JsonKind::number;
}

bool is_text(const JsonValue& value) { return value.kind == JsonKind::string; }

bool has_type(const Option& option, const JsonValue& value) {
  if (option.nullable && value.kind == JsonKind::null) return true;
  const auto all = [&](auto test) {
    return value.kind == JsonKind::array &&
           std::all_of(value.items.begin(), value.items.end(), test);
  };
  switch (option.type) {
    case OptionType::boolean: return value.kind == JsonKind::boolean;
    case OptionType::integer: return is_whole(value);
    case OptionType::number: return is_number(value);
    case OptionType::number_or_name: return is_number(value) || value.kind == JsonKind::string;
    case OptionType::integers: return all(is_whole);
    case OptionType::numbers: return all(is_number);
    case OptionType::texts: return all(is_text);
    case OptionType::object: return value.kind == JsonKind::object;
    case OptionType::table: return value.kind == JsonKind::object || is_text(value);
    case OptionType::scalar: return value.kind != JsonKind::array && value.kind != JsonKind::object;
    default: return is_text(value);
  }
}

// Returns NAME of "$NAME" or "$NAME/folder"; empty for another text that begins with '$'.
std::string variable_in(const std::string& text) {
  size_t end = 1;
  while (end < text.size() &&
         (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_'))
    ++end;
  const bool has_name = end > 1 && !std::isdigit(static_cast<unsigned char>(text[1]));
  const bool well_formed = has_name && (end == text.size() || text[end] == '/');
  return well_formed ? text.substr(1, end - 1) : "";
}

// Makes mistakes name the file of the value, not the config that refers to the file.
void name_origin(JsonValue& value, const std::string& file) {
  value.origin = fmt::format("{}:{}:{}", file, value.position.line, value.position.column);
  for (JsonValue& item : value.items) name_origin(item, file);
}

class ValueCheck {
 public:
  ValueCheck(const Option& option, const JsonValue& value, const std::string& path,
             Mistakes& mistakes)
      : option_(option), value_(value), path_(join_key(path, option.name)), mistakes_(mistakes) {}

  Json run() {
    if (!has_type(option_, value_)) return wrong("wrong type", value_);
    if (value_.kind == JsonKind::null) return nullptr;
    switch (option_.type) {
      case OptionType::boolean:
      case OptionType::scalar: return value_.scalar;
      case OptionType::object: return object(value_, path_);
      case OptionType::table: return is_text(value_) ? table_in_file() : table(value_);
      case OptionType::integer: return whole(value_);
      case OptionType::number: return number(value_);
      case OptionType::number_or_name: return is_number(value_) ? number(value_) : text();
      case OptionType::integers: return list([&](auto& item) { return whole(item); });
      case OptionType::numbers: return list([&](auto& item) { return number(item); });
      case OptionType::texts: return list([](auto& item) { return item.scalar; });
      default: return text();
    }
  }

 private:
  Json wrong(const char* problem, const JsonValue& at, const std::string& want) {
    mistakes_.add(at, path_, fmt::format("{}; got {}{}", problem, show_value(at), want));
    return option_.default_value;
  }
  Json wrong(const char* problem, const JsonValue& at) {
    return wrong(problem, at, "; want " + option_.wanted());
  }
  Json whole(const JsonValue& value) {
    if (!option_.range.contains(value.scalar.get<double>())) return wrong("out of range", value);
    return value.scalar.get<int64_t>();
  }
  Json number(const JsonValue& value) {
    const double x = value.scalar.get<double>();
    if (!option_.range.contains(x)) return wrong("out of range", value);
    return x;
  }
  template <class Convert>
  Json list(Convert convert) {
    if (option_.type == OptionType::numbers && value_.items.size() != option_.default_value.size())
      return wrong(fmt::format("{} numbers", value_.items.size()).c_str(), value_);
    Json values = Json::array();
    for (const auto& item : value_.items) values.push_back(convert(item));
    return values;
  }
  Json object(const JsonValue& value, const std::string& path) {
    Json values = default_values(option_.members);
    for (const auto& member : value.items)
      if (const Option* row = member_called(member, path))
        values[member.key] = checked_value(*row, member, path, mistakes_);
    return values;
  }
  Json table(const JsonValue& value) {
    Json values = Json::object();
    for (const auto& entry : value.items) {
      if (entry.kind != JsonKind::object) return wrong("wrong type", entry, "; want an object");
      values[entry.key] = object(entry, join_key(path_, entry.key));
    }
    return values;
  }
  Json table_in_file() {
    const std::string file = value_.scalar.get<std::string>();
    JsonValue read = read_json(file);
    name_origin(read, file);
    if (read.kind != JsonKind::object) return wrong("wrong type in the file", read);
    return table(read);
  }
  // Returns null if there is no member of this name.
  const Option* member_called(const JsonValue& member, const std::string& path) {
    std::vector<std::string> names;
    for (const auto& row : option_.members) {
      if (row.name == member.key) return &row;
      names.push_back(row.name);
    }
    mistakes_.add_key(member, join_key(path, member.key),
                      fmt::format("unknown key; got {}{}", show_text(member.key),
                                  legal_words(member.key, names)));
    return nullptr;
  }
  Json text() {
    const auto text = value_.scalar.get<std::string>();
    const bool is_choice =
        std::find(option_.choices.begin(), option_.choices.end(), text) != option_.choices.end();
    if (option_.type == OptionType::choice && !is_choice)
      return wrong("unknown name", value_, legal_words(text, option_.choices));
    if (option_.type == OptionType::number_or_name && !is_choice)
      return wrong("wrong type", value_);
    if (option_.type == OptionType::path && (text.empty() || text[0] == '$'))
      return wrong("bad path", value_, "; want a path, without environment variables");
    if (option_.type == OptionType::step_range && !text.empty() && !parse_step_range(text))
      return wrong("wrong range of steps", value_);
    if (option_.type != OptionType::data_path) return text;
    if (text.empty()) return wrong("empty path", value_, "; want a path, or omit the option");
    return text[0] == '$' ? expanded(text) : Json(text);
  }

  // Expands only a leading variable, and does not expand its value again.
  Json expanded(const std::string& text) {
    const std::string name = variable_in(text);
    if (name.empty())
      return wrong("bad environment variable", value_, "; want $NAME or $NAME/folder");
    const std::string value = environment::text(name);
    if (!value.empty()) return value + text.substr(1 + name.size());
    if (text == "$" + option_.variable) return Json();
    return wrong("environment variable is not set", value_,
                 fmt::format("; want one that is set, a path, or only ${}, which may be unset",
                             option_.variable));
  }

  const Option& option_;
  const JsonValue& value_;
  std::string path_;
  Mistakes& mistakes_;
};

}  // namespace

Json checked_value(const Option& option, const JsonValue& value, const std::string& path,
                   Mistakes& mistakes) {
  return ValueCheck(option, value, path, mistakes).run();
}

}  // namespace booster
