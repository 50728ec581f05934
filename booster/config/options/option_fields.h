// Options of a config that are fields of a C++ struct. A row gives a field its name, range and
// description. The default is taken from the struct, the only place where it is written.
//
//   using Fields = FP16NaiveOptions;
//   const FieldTable<Fields> table = {
//       field("hysteresis", &Fields::hysteresis, at_least(0), "overflows before it backs off")};
//   table.options()      rows for a registry's entry or a section of the config
//   table.read(values)   the struct, filled from checked values
// Plain values; any thread.
#pragma once

#include "booster/config/options/options.h"

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace booster {

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

// A row with a ready option, for a field that has another form in a config. A program may make its
// default null, for a value that it learns later: the field then keeps the struct's.
template <class Struct, class T>
FieldRow<Struct> field(Option option, T Struct::*member) {
  const std::string name = option.name;
  return {std::move(option), [=](Struct& fields, const OptionValues& values) {
            if (auto given = values.given<T>(name)) fields.*member = std::move(*given);
          }};
}
// The value is null unless given.
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
// The value is one of `choices`.
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
// A list of two numbers.
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

// Gives a field a default in configs, if the struct's own default is not a legal value because C++
// callers must set it.
template <class Struct>
FieldRow<Struct> with_default(FieldRow<Struct> row, nlohmann::json value) {
  row.option.default_value = std::move(value);
  return row;
}

}  // namespace booster
