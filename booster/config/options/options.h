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

#include <concepts>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace booster {

struct JsonValue;

enum class OptionType : uint8_t {
  boolean,
  integer,
  number,
  text,            // a name or a sentence, taken literally
  choice,          // one of the choices
  number_or_name,  // a number, or one of the choices
  path,            // a file or folder; may not name environment variables
  step_range,      // "FIRST:LAST" (StepRange), or empty
  data_path,       // a path that may begin with $NAME
  integers,        // a list
  numbers,         // a list of the default's length
  texts,           // a list
  object,          // with its own options, see Option::members
  table,           // any names, each for an object with the same options; or a file's path
  scalar,          // null, a flag, a number or a string: the constructor decides which are legal
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

// One way to fill a section of a config that is chosen by its "name".
struct NamedTable {
  std::string name;
  std::string description;
  OptionTable options;
};

Option boolean_option(std::string name, bool value, std::string description);
Option integer_option(std::string name, int64_t value, ValueRange range, std::string description);
Option number_option(std::string name, double value, ValueRange range, std::string description);
Option text_option(std::string name, std::string value, std::string description);
Option choice_option(std::string name, std::string value, std::vector<std::string> choices,
                     std::string description);
// Returns an option such as 128 or "dynamic"; `value` may be either.
Option number_or_name_option(std::string name, nlohmann::json value, ValueRange range,
                             std::vector<std::string> names, std::string description);
Option path_option(std::string name, std::string value, std::string description);
Option step_range_option(std::string name, std::string description);
// Returns an option that is null unless given, and null for "$VARIABLE" while that variable is
// unset. Any other unset variable is a mistake.
Option data_path_option(std::string name, std::string variable, std::string description);
Option integers_option(std::string name, std::vector<int64_t> value, ValueRange each,
                       std::string description);
Option numbers_option(std::string name, std::vector<double> value, ValueRange each,
                      std::string description);
Option texts_option(std::string name, std::vector<std::string> value, std::string description);
// Returns an option that is null unless given. `legal` describes the other values in words: "true
// or false".
Option scalar_option(std::string name, std::string legal, std::string description);

// Returns an option that is null unless given. If given, each member has a value.
Option object_option(std::string name, OptionTable members, std::string description);
// Returns an option for an object with any names, empty unless given; its values have these
// members. The value may also be the path of a JSON file that holds the object.
Option table_option(std::string name, OptionTable members, std::string description);
// Returns the same option without a default: null unless given.
Option or_null(Option row);

// Collects the mistakes of a config, so that one run reports all of them. For one thread.
class Mistakes {
 public:
  // `file` names the document in positions. `root` gives the positions of keys and must outlive
  // this object.
  explicit Mistakes(std::string file, const JsonValue* root = nullptr);
  ~Mistakes();
  Mistakes(const Mistakes&) = delete;
  Mistakes& operator=(const Mistakes&) = delete;

  // Adds a mistake in the value of the key at `path`, or in the key itself. `problem` is printed
  // after the position and the path: "wrong type; got 3, want an object".
  void add(const JsonValue& value, const std::string& path, const std::string& problem);
  void add_key(const JsonValue& value, const std::string& path, const std::string& problem);
  // Adds a mistake at a path ("optimizer.betas"), at the nearest position that the document has.
  void add(const std::string& path, const std::string& problem);
  // Adds a mistake in an override that cannot be applied; `text` names the override.
  void add_override(const std::string& text);

  // Returns true if there is a mistake at this path or below.
  bool any_in(std::string_view path) const;
  // Throws an Error with one line per mistake, in the order of the document and then of the
  // overrides; does nothing if there are none. After 50 mistakes it states only the number of the
  // others.
  void raise() const;

 private:
  struct Mistake;
  std::string file_;
  const JsonValue* root_;
  std::vector<Mistake> all_;
};

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
      fail("option {}: wrong type requested; it holds {}", name, found->dump());
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

// --- options that are fields of a C++ struct
//
// A row gives a field its name, range and description. The default is taken from the struct, the
// only place where it is written.
//
//   using Fields = FP16NaiveOptions;
//   const FieldTable<Fields> table = {
//       field("hysteresis", &Fields::hysteresis, at_least(0), "overflows before it backs off")};
//   table.options()      rows for a registry's entry or a section of the config
//   table.read(values)   the struct, filled from checked values

template <class Struct>
struct FieldRow {
  Option option;
  std::function<void(Struct&, const OptionValues&)> read;
};

template <class Struct>
class FieldTable {
 public:
  FieldTable(std::initializer_list<FieldRow<Struct>> rows) : rows_(rows) {}
  FieldTable(std::vector<FieldRow<Struct>> rows) : rows_(std::move(rows)) {}

  OptionTable options() const {
    OptionTable options;
    for (const auto& row : rows_) options.push_back(row.option);
    return options;
  }
  Struct read(const OptionValues& values) const {
    Struct fields;
    for (const auto& row : rows_) row.read(fields, values);
    return fields;
  }

 private:
  std::vector<FieldRow<Struct>> rows_;
};

// Returns a row with a ready option, for a field that has another form in a config. A program may
// set its default to null, for a value that it learns later. The field then keeps the struct's
// default.
template <class Struct, class T>
FieldRow<Struct> field(Option option, T Struct::*member) {
  const std::string name = option.name;
  return {std::move(option), [=](Struct& fields, const OptionValues& values) {
            if (auto given = values.given<T>(name)) fields.*member = std::move(*given);
          }};
}
// Returns the same for a value that is null unless given.
template <class Struct, class T>
FieldRow<Struct> field(Option option, std::optional<T> Struct::*member) {
  const std::string name = option.name;
  return {or_null(std::move(option)), [=](Struct& fields, const OptionValues& values) {
            fields.*member = values.given<T>(name);
          }};
}

template <class Struct>
FieldRow<Struct> field(std::string name, bool Struct::*member, std::string description) {
  return field(boolean_option(std::move(name), Struct().*member, std::move(description)), member);
}
template <class Struct, std::integral Integer>
FieldRow<Struct> field(std::string name, Integer Struct::*member, ValueRange range,
                       std::string description) {
  return field(
      integer_option(std::move(name), Struct().*member, range, std::move(description)), member);
}
template <class Struct>
FieldRow<Struct> field(std::string name, double Struct::*member, ValueRange range,
                       std::string description) {
  return field(number_option(std::move(name), Struct().*member, range, std::move(description)),
               member);
}
template <class Struct>
FieldRow<Struct> field(std::string name, std::string Struct::*member, std::string description) {
  return field(text_option(std::move(name), Struct().*member, std::move(description)), member);
}
// Returns the same for a value that is one of `choices`.
template <class Struct>
FieldRow<Struct> field(std::string name, std::string Struct::*member,
                       std::vector<std::string> choices, std::string description) {
  return field(choice_option(std::move(name), Struct().*member, std::move(choices),
                             std::move(description)),
               member);
}
template <class Struct>
FieldRow<Struct> field(std::string name, std::vector<std::string> Struct::*member,
                       std::string description) {
  return field(texts_option(std::move(name), Struct().*member, std::move(description)), member);
}
template <class Struct>
FieldRow<Struct> field(std::string name, std::vector<int64_t> Struct::*member, ValueRange each,
                       std::string description) {
  return field(integers_option(std::move(name), Struct().*member, each, std::move(description)),
               member);
}
// Returns the row of a list of two numbers.
template <class Struct>
FieldRow<Struct> field(std::string name, std::pair<double, double> Struct::*member,
                       ValueRange each, std::string description) {
  const auto [first, second] = Struct().*member;
  return field(numbers_option(std::move(name), {first, second}, each, std::move(description)),
               member);
}

// Returns a function that makes a `Made` from the struct that checked values fill.
template <class Made, class Struct>
auto maker(FieldTable<Struct> table) {
  return [table = std::move(table)](const OptionValues& values) {
    return std::make_unique<Made>(table.read(values));
  };
}

// Gives a field a default in configs. For a struct without a legal default, which C++ callers must
// set.
template <class Struct>
FieldRow<Struct> with_default(FieldRow<Struct> row, nlohmann::json value) {
  row.option.default_value = std::move(value);
  return row;
}

// --- options that have no effect in combination with others
//
// The library accepts them because the original systems do, and prints one note. If the original
// refuses a combination, the strategy throws instead. A strategy declares a table with one row per
// reason:
//   IdleTable idle = {{{"seed"},
//                      [](auto& values) { return values.get<std::string>("update") == "nearest"; },
//                      "with update = nearest"}};

struct IdleOptions {
  std::vector<std::string> names;  // "amp_configs.decr_ratio" is a member of an object
  std::function<bool(const OptionValues&)> when;
  std::string why;  // ends the sentence: "at level O1"
};
using IdleTable = std::vector<IdleOptions>;

// Returns the most common condition: an option has this value.
template <class T>
std::function<bool(const OptionValues&)> option_is(std::string name, T value) {
  return [=](const OptionValues& values) { return values.get<T>(name) == value; };
}

}  // namespace booster
