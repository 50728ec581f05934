#include "booster/config/options/options.h"

#include "booster/config/options/option_tables.h"
#include "platform/json/json_document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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
    case OptionType::data_path: return "a path that may begin with $NAME";
    case OptionType::integers: return "a list of whole numbers";
    case OptionType::numbers: return "a list of numbers";
    case OptionType::texts: return "a list of strings";
    case OptionType::object: return "an object";
    case OptionType::table: return "an object, or a path to a file that holds one";
    case OptionType::scalar: return "null";
  }
  return "";
}

// Returns text in columns: every column but the last is padded to its widest cell.
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
  if (nullable) {
    Option given = *this;
    given.nullable = false;
    return given.wanted() + ", or null";
  }
  std::string text = name_of(type);
  if (type == OptionType::choice) return fmt::format("{} {}", text, fmt::join(choices, ", "));
  if (type == OptionType::numbers) text = fmt::format("a list of {} numbers", default_value.size());
  if (type == OptionType::scalar) return text + ", " + legal;
  if (!legal.empty()) return legal;
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
Option data_path_option(std::string name, std::string variable, std::string description) {
  Option row = option(std::move(name), OptionType::data_path, "", std::move(description));
  row.variable = std::move(variable);
  return or_null(std::move(row));
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

Option object_option(std::string name, OptionTable members, std::string description) {
  Option row = option(std::move(name), OptionType::object, nullptr, std::move(description));
  row.members = std::move(members);
  return or_null(std::move(row));
}
Option table_option(std::string name, OptionTable members, std::string description) {
  Option row =
      option(std::move(name), OptionType::table, Json::object(), std::move(description));
  row.members = std::move(members);
  return row;
}
Option or_null(Option row) {
  row.nullable = true;
  row.default_value = nullptr;
  return row;
}

Json default_values(const OptionTable& table) {
  Json values = Json::object();
  for (const auto& option : table) values[option.name] = option.default_value;
  return values;
}

namespace {
Json schema_of_members(const Option& option) {
  Json schema = {{"type", "object"}, {"additionalProperties", false}};
  for (const auto& member : option.members) schema["properties"][member.name] = schema_of(member);
  return schema;
}
}  // namespace

Json schema_of(const Option& option) {
  Json range = Json::object();
  const auto& [minimum, maximum, open_minimum, open_maximum] = option.range;
  if (std::isfinite(minimum)) range[open_minimum ? "exclusiveMinimum" : "minimum"] = minimum;
  if (std::isfinite(maximum)) range[open_maximum ? "exclusiveMaximum" : "maximum"] = maximum;
  Json schema = Json::object();
  if (option.nullable) {
    Option given = option;
    given.nullable = false;
    return {{"oneOf", {schema_of(given), {{"type", "null"}}}},
            {"description", option.description},
            {"default", nullptr}};
  }
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
    case OptionType::object: schema = schema_of_members(option); break;
    case OptionType::table:
      schema = {{"anyOf",
                 {{{"type", "object"}, {"additionalProperties", schema_of_members(option)}},
                  {{"type", "string"}}}}};
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
      schema = {{"type", "string"}, {"pattern", "^([^$]|\\$[A-Za-z_][A-Za-z0-9_]*(/|$))"}};
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
  if (!option.default_value.is_null()) schema["default"] = option.default_value;
  return schema;
}

std::string describe(const OptionTable& table) {
  std::vector<std::vector<std::string>> rows;
  const auto add = [&](const std::string& name, const Option& option) {
    rows.push_back({name, option.default_value.dump(), option.wanted(), option.description});
  };
  for (const auto& option : table) {
    add(option.name, option);
    const std::string each = option.type == OptionType::table ? option.name + ".*" : option.name;
    for (const auto& member : option.members) add(each + "." + member.name, member);
  }
  return columns(rows);
}

void OptionValues::no_such(const std::string& name) const {
  std::vector<std::string> names;
  for (const auto& [key, value] : values_.items()) names.push_back(key);
  fail("option: unknown name; got {}{}", name, legal_names(name, names));
}

}  // namespace booster
