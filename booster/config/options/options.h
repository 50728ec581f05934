// Tables of options. Each is the single source for a config's checks and defaults, the text of
// `booster list NAME` and the JSON schema.
//
// A plugin, a strategy or a section of the config declares a visible table with one row per option:
//   OptionTable options = {
//       number_option("lr", 0.01, at_least(0), "learning rate"),
//       choice_option("on_bad_image", "fail", {"fail", "skip"}, "what a bad image does"),
//   };
// Tables are plain values; reading them from several threads is safe.
#pragma once

#include "platform/error.h"

#include <nlohmann/json.hpp>

#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace booster {

struct JsonValue;

enum class OptionType : uint8_t {
  boolean,
  integer,
  number,
  text,       // a name or a sentence, taken literally
  choice,     // one of the choices
  number_or_name,  // a number, or one of the choices
  path,       // a file or folder; may not name environment variables
  step_range,  // "FIRST:LAST" (step_range.h), or empty
  data_path,  // a path that may begin with $NAME
  integers,   // a list
  numbers,    // a list of the default's length
  texts,      // a list
  object,     // with its own options, see Option::members
  table,      // any names, each for an object with the same options; or a file
  scalar,     // null, a flag, a number or a string: the constructor decides which are legal
};

struct ValueRange {
  double minimum = -std::numeric_limits<double>::infinity();
  double maximum = std::numeric_limits<double>::infinity();
  bool open_minimum = false;  // the limit itself is refused
  bool open_maximum = false;

  bool contains(double x) const;
  std::string to_string() const;  // ">= 1", "> 0", "in [0, 1)", "" without limits
};
inline ValueRange at_least(double minimum) { return {.minimum = minimum}; }
inline ValueRange above(double minimum) { return {.minimum = minimum, .open_minimum = true}; }
inline ValueRange between(double minimum, double maximum) { return {minimum, maximum}; }
// [minimum, maximum)
inline ValueRange from_below(double minimum, double maximum) {
  return {.minimum = minimum, .maximum = maximum, .open_maximum = true};
}

struct Option {
  std::string name;
  OptionType type = OptionType::text;
  nlohmann::json default_value;
  ValueRange range;
  std::vector<std::string> choices;
  std::string description;
  std::string legal = {};            // legal values of a scalar or a restricted text, in words
  std::vector<Option> members = {};  // of an object, or of each of a table's
  bool nullable = false;             // null, its default, means "not given"
  std::string variable = {};         // of a data path: the environment variable that may be unset

  std::string wanted() const;  // "a number >= 0", "one of fail, skip"
};
using OptionTable = std::vector<Option>;

Option boolean_option(std::string name, bool value, std::string description);
Option integer_option(std::string name, int64_t value, ValueRange range, std::string description);
Option number_option(std::string name, double value, ValueRange range, std::string description);
Option text_option(std::string name, std::string value, std::string description);
Option choice_option(std::string name, std::string value, std::vector<std::string> choices,
                     std::string description);
// An option such as 128 or "dynamic"; `value` may be either.
Option number_or_name_option(std::string name, nlohmann::json value, ValueRange range,
                             std::vector<std::string> names, std::string description);
Option path_option(std::string name, std::string value, std::string description);
Option step_range_option(std::string name, std::string description);
// Null unless given, and null if it is "$VARIABLE" and that is not set. Any other unset variable is
// a mistake.
Option data_path_option(std::string name, std::string variable, std::string description);
Option integers_option(std::string name, std::vector<int64_t> value, ValueRange each,
                       std::string description);
Option numbers_option(std::string name, std::vector<double> value, ValueRange each,
                      std::string description);
Option texts_option(std::string name, std::vector<std::string> value, std::string description);
// Null unless given. `legal` describes the other values in words: "true or false".
Option scalar_option(std::string name, std::string legal, std::string description);

// Null unless given; if given, each member has a value.
Option object_option(std::string name, OptionTable members, std::string description);
// An object with any names, empty unless given; its values have these members. Alternatively the
// path of a JSON file that holds it.
Option table_option(std::string name, OptionTable members, std::string description);
// Returns the same option without a default: null unless given.
Option or_null(Option row);

class Mistakes;

// Returns the checked value of an option, with $NAME expanded. If the value is wrong, adds it to
// `mistakes` and returns the default. `path` is the path of the option's section.
nlohmann::json checked_value(const Option& option, const JsonValue& value, const std::string& path,
                             Mistakes& mistakes);
nlohmann::json default_values(const OptionTable& table);
// Returns the JSON schema of one option's values.
nlohmann::json schema_of(const Option& option);
// Returns a line per option, in columns: "  lr   0.01   a number >= 0   learning rate".
std::string describe(const OptionTable& table);

// Checked values by option name.
class OptionValues {
 public:
  OptionValues() : values_(nlohmann::json::object()) {}
  explicit OptionValues(nlohmann::json values) : values_(std::move(values)) {}

  // Throws if there is no such option or its type is not T.
  template <class T>
  T get(const std::string& name) const {
    const auto found = values_.find(name);
    if (found == values_.end()) no_such(name);
    try {
      return found->get<T>();
    } catch (const nlohmann::json::exception&) {
      fail("option {}: wrong type asked for; it holds {}", name, found->dump());
    }
  }
  // Returns nothing if the value is null.
  template <class T>
  std::optional<T> given(const std::string& name) const {
    if (has(name) && values_.at(name).is_null()) return {};
    return get<T>(name);
  }
  bool has(const std::string& name) const { return values_.contains(name); }
  const nlohmann::json& values() const { return values_; }

 private:
  [[noreturn]] void no_such(const std::string& name) const;
  nlohmann::json values_;
};

}  // namespace booster
