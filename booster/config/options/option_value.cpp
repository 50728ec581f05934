// Checks one value of a config against its option.
#include "booster/config/json_document.h"
#include "booster/config/options/options.h"
#include "booster/profile/step_range.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

namespace booster {

namespace {

using Json = nlohmann::json;

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
    case OptionType::scalar:
      return value.kind != JsonKind::array && value.kind != JsonKind::object;
    default: return is_text(value);
  }
}

// "$NAME" or "$NAME/folder" -> the variable's value and the rest; empty if it is not set. Only the
// beginning is examined, and a variable's value is not expanded again.
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
    if (value_.kind == JsonKind::null) return nullptr;
    switch (option_.type) {
      case OptionType::boolean:
      case OptionType::scalar: return value_.scalar;
      case OptionType::object: return object();
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
  Json object() const {
    Json values = default_values(option_.members);
    for (const auto& member : value_.items)
      values[member.key] = checked_value(member_called(member), member, file_, path_);
    return values;
  }
  const Option& member_called(const JsonValue& member) const {
    std::vector<std::string> names;
    for (const auto& row : option_.members) {
      if (row.name == member.key) return row;
      names.push_back(row.name);
    }
    fail("{}: {}: unknown key; got {}{}", place_of_key(file_, member), join_key(path_, member.key),
         show_text(member.key), legal_names(member.key, names));
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
            "; want a path, without environment variables");
    }
    if (option_.type == OptionType::step_range && !text.empty() && !parse_step_range(text))
      wrong("bad range of steps", value_, "; want " + option_.wanted());
    if (option_.type != OptionType::data_path) return text;
    if (text.empty()) wrong("empty path", value_, "; want a path, or no such option at all");
    bool well_formed = true;
    std::string path = expanded(text, well_formed);
    if (!well_formed) wrong("bad environment variable", value_, "; want $NAME or $NAME/folder");
    return path.empty() && option_.nullable ? Json() : Json(path);
  }

  const Option& option_;
  const JsonValue& value_;
  const std::string& file_;
  std::string path_;
};

}  // namespace

Json checked_value(const Option& option, const JsonValue& value, const std::string& file,
                   const std::string& path) {
  return ValueCheck(option, value, file, path).run();
}

}  // namespace booster
