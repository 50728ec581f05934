#include "booster/options.h"

#include "booster/step_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace booster {

namespace {

using Json = nlohmann::json;

Option option(std::string name, OptionType type, Json value, std::string description) {
  return {.name = std::move(name),
          .type = type,
          .default_value = std::move(value),
          .range = {},
          .choices = {},
          .description = std::move(description),
          .legal = {}};
}

const char* name_of(OptionType type) {
  switch (type) {
    case OptionType::boolean: return "true or false";
    case OptionType::integer: return "a whole number";
    case OptionType::number: return "a number";
    case OptionType::text: return "a string";
    case OptionType::choice: return "one of";
    case OptionType::number_or_name: return "a number";
    case OptionType::path: return "a path";
    case OptionType::step_range: return "steps FIRST:LAST, counted from 1, or an empty string";
    case OptionType::data_path: return "a path, which may begin with $NAME,";
    case OptionType::integers: return "a list of whole numbers";
    case OptionType::numbers: return "a list of numbers";
    case OptionType::texts: return "a list of strings";
    case OptionType::scalar: return "null";
  }
  return "";
}

// A whole number may be written 1e4.
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
    case OptionType::scalar:
      return value.kind != JsonKind::array && value.kind != JsonKind::object;
    default: return is_text(value);
  }
}

// "$NAME" or "$NAME/folder" -> the variable's value and the rest; empty if it is not set. Only the
// beginning is looked at, and what a variable holds is not expanded again.
std::string expanded(const std::string& text, bool& well_formed) {
  well_formed = true;
  if (text.empty() || text[0] != '$') return text;
  size_t end = 1;
  while (end < text.size() &&
         (std::isalnum(static_cast<unsigned char>(text[end])) || text[end] == '_'))
    ++end;
  const bool has_name = end > 1 && !std::isdigit(static_cast<unsigned char>(text[1]));
  well_formed = has_name && (end == text.size() || text[end] == '/');
  const char* value = well_formed ? std::getenv(text.substr(1, end - 1).c_str()) : nullptr;
  return value && *value ? value + text.substr(end) : "";
}

class ValueCheck {
 public:
  ValueCheck(const Option& option, const JsonValue& value, const std::string& file,
             const std::string& path)
      : option_(option), value_(value), file_(file), path_(join_key(path, option.name)) {}

  Json run() const {
    if (!has_type(option_, value_)) wrong("wrong type", value_, "; want " + option_.wanted());
    switch (option_.type) {
      case OptionType::boolean:
      case OptionType::scalar: return value_.scalar;
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
  [[noreturn]] void wrong(const char* problem, const JsonValue& at, const std::string& want) const {
    fail("{}: {}: {}; got {}{}", place_of(file_, at), path_, problem, show_value(at), want);
  }
  void check_range(const JsonValue& value, double x) const {
    if (!option_.range.contains(x)) wrong("out of range", value, "; want " + option_.wanted());
  }
  Json whole(const JsonValue& value) const {
    check_range(value, value.scalar.get<double>());
    return value.scalar.get<int64_t>();
  }
  Json number(const JsonValue& value) const {
    const double x = value.scalar.get<double>();
    check_range(value, x);
    return x;
  }
  template <class Convert>
  Json list(Convert convert) const {
    if (option_.type == OptionType::numbers &&
        value_.items.size() != option_.default_value.size()) {
      wrong(fmt::format("{} numbers", value_.items.size()).c_str(), value_,
            "; want " + option_.wanted());
    }
    Json values = Json::array();
    for (const auto& item : value_.items) values.push_back(convert(item));
    return values;
  }
  Json text() const {
    const auto text = value_.scalar.get<std::string>();
    const bool is_choice =
        std::find(option_.choices.begin(), option_.choices.end(), text) != option_.choices.end();
    if (option_.type == OptionType::choice && !is_choice)
      wrong("unknown name", value_, legal_names(text, option_.choices));
    if (option_.type == OptionType::number_or_name && !is_choice)
      wrong("wrong type", value_, "; want " + option_.wanted());
    if (option_.type == OptionType::path && (text.empty() || text[0] == '$')) {
      wrong("bad path", value_,
            "; want a path without environment variables (only data.root may begin with one)");
    }
    if (option_.type == OptionType::step_range && !text.empty() && !parse_step_range(text))
      wrong("bad range of steps", value_, "; want " + option_.wanted());
    if (option_.type != OptionType::data_path) return text;
    bool well_formed = true;
    std::string path = expanded(text, well_formed);
    if (!well_formed) wrong("bad environment variable", value_, "; want $NAME or $NAME/folder");
    return path;
  }

  const Option& option_;
  const JsonValue& value_;
  const std::string& file_;
  std::string path_;
};

// Text in columns: every column but the last padded to its widest cell.
std::string columns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i + 1 < row.size(); ++i) text += fmt::format("  {:<{}}", row[i], widths[i]);
    text += "  " + row.back() + "\n";
  }
  return text;
}

}  // namespace

bool ValueRange::contains(double x) const {
  const bool above = open_minimum ? x > minimum : x >= minimum;
  const bool below = open_maximum ? x < maximum : x <= maximum;
  return above && below;
}

std::string ValueRange::to_string() const {
  const bool low = std::isfinite(minimum), high = std::isfinite(maximum);
  if (low && high) {
    return fmt::format("in {}{}, {}{}", open_minimum ? '(' : '[', minimum, maximum,
                       open_maximum ? ')' : ']');
  }
  if (low) return fmt::format("{} {}", open_minimum ? ">" : ">=", minimum);
  if (high) return fmt::format("{} {}", open_maximum ? "<" : "<=", maximum);
  return "";
}

std::string Option::wanted() const {
  std::string text = name_of(type);
  if (type == OptionType::choice) return fmt::format("{} {}", text, fmt::join(choices, ", "));
  if (type == OptionType::numbers) text = fmt::format("a list of {} numbers", default_value.size());
  if (type == OptionType::scalar) return text + ", " + legal;
  const std::string limits = range.to_string();
  const bool is_list = type == OptionType::numbers || type == OptionType::integers;
  if (!limits.empty()) text += (is_list ? ", each " : " ") + limits;
  if (type == OptionType::number_or_name) text += fmt::format(" or {}", fmt::join(choices, ", "));
  return text;
}

Option boolean_option(std::string name, bool value, std::string description) {
  return option(std::move(name), OptionType::boolean, value, std::move(description));
}
Option integer_option(std::string name, int64_t value, ValueRange range, std::string description) {
  Option row = option(std::move(name), OptionType::integer, value, std::move(description));
  row.range = range;
  return row;
}
Option number_option(std::string name, double value, ValueRange range, std::string description) {
  Option row = option(std::move(name), OptionType::number, value, std::move(description));
  row.range = range;
  return row;
}
Option text_option(std::string name, std::string value, std::string description) {
  return option(std::move(name), OptionType::text, std::move(value), std::move(description));
}
Option choice_option(std::string name, std::string value, std::vector<std::string> choices,
                     std::string description) {
  Option row =
      option(std::move(name), OptionType::choice, std::move(value), std::move(description));
  row.choices = std::move(choices);
  return row;
}
Option number_or_name_option(std::string name, Json value, ValueRange range,
                             std::vector<std::string> names, std::string description) {
  Option row = option(std::move(name), OptionType::number_or_name, std::move(value),
                      std::move(description));
  row.range = range;
  row.choices = std::move(names);
  return row;
}
Option path_option(std::string name, std::string value, std::string description) {
  return option(std::move(name), OptionType::path, std::move(value), std::move(description));
}
Option step_range_option(std::string name, std::string description) {
  return option(std::move(name), OptionType::step_range, "", std::move(description));
}
Option data_path_option(std::string name, std::string value, std::string description) {
  return option(std::move(name), OptionType::data_path, std::move(value), std::move(description));
}
Option integers_option(std::string name, std::vector<int64_t> value, ValueRange each,
                       std::string description) {
  Option row =
      option(std::move(name), OptionType::integers, std::move(value), std::move(description));
  row.range = each;
  return row;
}
Option numbers_option(std::string name, std::vector<double> value, ValueRange each,
                      std::string description) {
  Option row =
      option(std::move(name), OptionType::numbers, std::move(value), std::move(description));
  row.range = each;
  return row;
}

Option texts_option(std::string name, std::vector<std::string> value, std::string description) {
  return option(std::move(name), OptionType::texts, std::move(value), std::move(description));
}

Option scalar_option(std::string name, std::string legal, std::string description) {
  Option row = option(std::move(name), OptionType::scalar, nullptr, std::move(description));
  row.legal = std::move(legal);
  return row;
}

Json checked_value(const Option& option, const JsonValue& value, const std::string& file,
                   const std::string& path) {
  return ValueCheck(option, value, file, path).run();
}

Json default_values(const OptionTable& table) {
  Json values = Json::object();
  for (const auto& option : table) values[option.name] = option.default_value;
  return values;
}

Json schema_of(const Option& option) {
  Json range = Json::object();
  const auto& [minimum, maximum, open_minimum, open_maximum] = option.range;
  if (std::isfinite(minimum)) range[open_minimum ? "exclusiveMinimum" : "minimum"] = minimum;
  if (std::isfinite(maximum)) range[open_maximum ? "exclusiveMaximum" : "maximum"] = maximum;
  Json schema = Json::object();
  switch (option.type) {
    case OptionType::boolean: schema["type"] = "boolean"; break;
    case OptionType::integer:
      range["type"] = "integer";
      schema = range;
      break;
    case OptionType::number:
      range["type"] = "number";
      schema = range;
      break;
    case OptionType::scalar: schema["type"] = {"null", "boolean", "number", "string"}; break;
    case OptionType::choice: schema["enum"] = option.choices; break;
    case OptionType::number_or_name:
      range["type"] = "number";
      schema = {{"anyOf", {range, {{"enum", option.choices}}}}};
      break;
    case OptionType::text: schema["type"] = "string"; break;
    case OptionType::step_range:
      schema = {{"type", "string"}, {"pattern", "^([1-9][0-9]*:[1-9][0-9]*)?$"}};
      break;
    case OptionType::path: schema = {{"type", "string"}, {"pattern", "^[^$]"}}; break;
    case OptionType::data_path:
      schema = {{"type", "string"}, {"pattern", "^([^$]|\\$[A-Za-z_][A-Za-z0-9_]*(/|$)|$)"}};
      break;
    case OptionType::integers:
      range["type"] = "integer";
      schema = {{"type", "array"}, {"items", range}};
      break;
    case OptionType::texts:
      schema = {{"type", "array"}, {"items", {{"type", "string"}}}};
      break;
    case OptionType::numbers: {
      range["type"] = "number";
      const size_t length = option.default_value.size();
      schema = {{"type", "array"}, {"items", range}, {"minItems", length}, {"maxItems", length}};
      break;
    }
  }
  schema["description"] = option.description;
  schema["default"] = option.default_value;
  return schema;
}

std::string describe(const OptionTable& table) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& option : table) {
    rows.push_back({option.name, option.default_value.dump(), option.wanted(), option.description});
  }
  return columns(rows);
}

void OptionValues::no_such(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& [key, value] : values_.items()) names.push_back(key);
  fail("option: unknown name; got {}{}", name, legal_names(name, names));
}

}  // namespace booster
