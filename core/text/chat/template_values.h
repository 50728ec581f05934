// The values of chat templates, with the meaning that Python and Jinja give them. For one thread.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace booster::text {

class TemplateValue;
using TemplateList = std::vector<TemplateValue>;
using TemplateMap = std::vector<std::pair<std::string, TemplateValue>>;  // in order

struct UndefinedValue {
  std::string name;  // what has no value
};

// Lists and maps are shared; only a namespace's map is ever changed.
class TemplateValue {
 public:
  TemplateValue() : value_(nullptr) {}
  TemplateValue(UndefinedValue value) : value_(std::move(value)) {}
  TemplateValue(bool value) : value_(value) {}
  TemplateValue(int64_t value) : value_(value) {}
  TemplateValue(double value) : value_(value) {}
  TemplateValue(std::string value) : value_(std::move(value)) {}
  TemplateValue(const char* value) : value_(std::string(value)) {}
  TemplateValue(TemplateList value) : value_(std::make_shared<TemplateList>(std::move(value))) {}
  TemplateValue(TemplateMap value) : value_(std::make_shared<TemplateMap>(std::move(value))) {}

  bool is_undefined() const { return std::holds_alternative<UndefinedValue>(value_); }
  bool is_none() const { return std::holds_alternative<std::nullptr_t>(value_); }
  bool is_boolean() const { return std::holds_alternative<bool>(value_); }
  bool is_integer() const { return std::holds_alternative<int64_t>(value_); }
  bool is_float() const { return std::holds_alternative<double>(value_); }
  bool is_number() const { return is_boolean() || is_integer() || is_float(); }
  bool is_text() const { return std::holds_alternative<std::string>(value_); }
  bool is_list() const { return std::holds_alternative<std::shared_ptr<TemplateList>>(value_); }
  bool is_map() const { return std::holds_alternative<std::shared_ptr<TemplateMap>>(value_); }

  // Each throws an Error of kind data, naming both kinds, for a value of another kind.
  const std::string& text() const;
  int64_t integer() const;  // also of a boolean
  double number() const;
  const TemplateList& list() const;
  TemplateMap& map() const;

  // Returns "a text", "a list" and the like, for errors.
  const char* kind() const;
  // Returns the name of what is undefined.
  const std::string& name() const { return std::get<UndefinedValue>(value_).name; }

  bool truth() const;
  // Returns what printing shows: nothing of an undefined value. Throws for lists and maps.
  std::string shown() const;
  // Returns the items of a list, the characters of a text, the keys of a map; nothing of an
  // undefined value. Throws for other values.
  TemplateList items() const;
  int64_t size() const;  // of items()

 private:
  std::variant<std::nullptr_t, UndefinedValue, bool, int64_t, double, std::string,
               std::shared_ptr<TemplateList>, std::shared_ptr<TemplateMap>>
      value_;
};

// Fails with an Error of kind data; the runner adds the template's name and line.
[[noreturn]] void template_error(const std::string& problem);

bool equal_values(const TemplateValue& a, const TemplateValue& b);
bool contains_value(const TemplateValue& whole, const TemplateValue& part);
// `operation`: "<", "+", "~", "//" and so on. Throws for kinds that it does not combine.
TemplateValue combined(const std::string& operation, const TemplateValue& a,
                       const TemplateValue& b);
// Returns a member: an item by number, or by name. Undefined if there is none; throws for an
// undefined value.
TemplateValue member_of(const TemplateValue& value, const TemplateValue& name);
// value[begin:end:step]; none stands for what is not given.
TemplateValue slice_of(const TemplateValue& value, const TemplateValue& begin,
                       const TemplateValue& end, const TemplateValue& step);
// Returns the text without characters of `strange` at its ends; empty: white space, as Python's.
std::string stripped(std::string_view text, const std::string& strange, bool left, bool right);
// Returns the value as JSON, as json.dumps writes it without escaping Unicode. indent 0: one line.
std::string json_of(const TemplateValue& value, int64_t indent = 0, int64_t depth = 0);

}  // namespace booster::text
