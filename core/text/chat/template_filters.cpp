#include "core/text/chat/template_filters.h"

#include "platform/error.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <map>

namespace booster::text {

namespace {

using Arguments = TemplateArguments;
template <class Result>
using Table = std::map<std::string, std::function<Result(const Arguments&)>>;

template <class Result>
std::vector<std::string> names_of(const Table<Result>& table) {
  std::vector<std::string> names;
  for (const auto& [name, function] : table) names.push_back(name);
  return names;
}

// Letters of ASCII alone: other alphabets would need tables, and templates change only roles.
std::string with_case(std::string text, int (*change)(int)) {
  for (char& c : text)
    if (static_cast<unsigned char>(c) < 0x80) c = static_cast<char>(change(c));
  return text;
}

std::string capitalized(const std::string& text) {
  std::string result = with_case(text, std::tolower);
  if (!result.empty()) result[0] = with_case(result.substr(0, 1), std::toupper)[0];
  return result;
}

std::string title(const std::string& text) {
  std::string result = with_case(text, std::tolower);
  bool starts = true;
  for (char& c : result) {
    const bool letter = std::isalpha(static_cast<unsigned char>(c)) != 0;
    if (starts && letter) c = with_case({c}, std::toupper)[0];
    starts = !letter;
  }
  return result;
}

std::string replaced(const std::string& text, const std::string& from, const std::string& to) {
  if (from.empty()) template_error("replace: an empty text to replace");
  std::string result;
  size_t begin = 0;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, begin)) {
    result += text.substr(begin, at - begin) + to;
    begin = at + from.size();
  }
  return result + text.substr(begin);
}

TemplateValue joined_text(const TemplateValue& values, const std::string& between) {
  std::string result;
  bool first = true;
  for (const auto& value : values.items()) {
    if (!first) result += between;
    result += value.shown();
    first = false;
  }
  return result;
}

// At white space without a separator, as str.split of Python.
TemplateValue split_text(const std::string& text, const TemplateValue& separator, int64_t most) {
  TemplateList parts;
  std::string rest = text;
  if (separator.is_none()) {
    if (most >= 0) template_error("split: a limit without a separator is not supported");
    const std::string_view blank = " \t\n\r\f\v";
    for (size_t begin = text.find_first_not_of(blank); begin != std::string::npos;) {
      const size_t end = std::min(text.find_first_of(blank, begin), text.size());
      parts.emplace_back(text.substr(begin, end - begin));
      begin = text.find_first_not_of(blank, end);
    }
    return parts;
  }
  if (separator.text().empty()) template_error("split: an empty separator");
  for (size_t at = rest.find(separator.text()); at != std::string::npos && most-- != 0;
       at = rest.find(separator.text())) {
    parts.emplace_back(rest.substr(0, at));
    rest = rest.substr(at + separator.text().size());
  }
  parts.emplace_back(rest);
  return parts;
}

TemplateValue pairs_of(const TemplateValue& map) {
  TemplateList pairs;
  if (map.is_undefined()) return pairs;
  for (const auto& [name, value] : map.map()) pairs.push_back(TemplateList{name, value});
  return pairs;
}

TemplateValue values_of(const TemplateValue& map) {
  TemplateList values;
  for (const auto& [name, value] : map.map()) values.push_back(value);
  return values;
}

// The items that pass a test, or are true without one: select("string").
TemplateValue selected(const Arguments& a, bool wanted, bool by_attribute) {
  TemplateList result;
  const size_t test = by_attribute ? 2 : 1;
  for (const auto& item : a.values.at(0).items()) {
    const TemplateValue value = by_attribute ? member_of(item, a.get(1, "")) : item;
    Arguments inner{{value}, {}};
    for (size_t i = test + 1; i < a.values.size(); ++i) inner.values.push_back(a.values[i]);
    const bool passes =
        a.values.size() > test ? passes_test(a.values[test].text(), inner) : value.truth();
    if (passes == wanted) result.push_back(item);
  }
  return result;
}

TemplateValue mapped(const Arguments& a) {
  const TemplateValue attribute = a.get(9, "attribute");
  if (attribute.is_none()) template_error("map: only map(attribute=...) is supported");
  TemplateList result;
  for (const auto& item : a.values.at(0).items()) result.push_back(member_of(item, attribute));
  return result;
}

TemplateValue end_of(const TemplateValue& value, bool first) {
  const TemplateList items = value.items();
  if (items.empty()) return UndefinedValue{first ? "first" : "last"};
  return first ? items.front() : items.back();
}

TemplateValue or_default(const Arguments& a) {
  const TemplateValue& value = a.values.at(0);
  const bool also_false = a.get(2, "boolean", false).truth();
  return value.is_undefined() || (also_false && !value.truth()) ? a.get(1, "default_value", "")
                                                                : value;
}

TemplateValue reversed(const TemplateValue& value) { return slice_of(value, {}, {}, int64_t{-1}); }

const Table<TemplateValue>& filters() {
  static const Table<TemplateValue> table = {
      {"capitalize", [](const Arguments& a) { return capitalized(a.values.at(0).shown()); }},
      {"count", [](const Arguments& a) { return a.values.at(0).size(); }},
      {"d", or_default},
      {"default", or_default},
      {"first", [](const Arguments& a) { return end_of(a.values.at(0), true); }},
      {"items", [](const Arguments& a) { return pairs_of(a.values.at(0)); }},
      {"join",
       [](const Arguments& a) { return joined_text(a.values.at(0), a.get(1, "d", "").shown()); }},
      {"last", [](const Arguments& a) { return end_of(a.values.at(0), false); }},
      {"length", [](const Arguments& a) { return a.values.at(0).size(); }},
      {"list", [](const Arguments& a) { return a.values.at(0).items(); }},
      {"lower", [](const Arguments& a) { return with_case(a.values.at(0).shown(), std::tolower); }},
      {"map", mapped},
      {"reject", [](const Arguments& a) { return selected(a, false, false); }},
      {"rejectattr", [](const Arguments& a) { return selected(a, false, true); }},
      {"replace",
       [](const Arguments& a) {
         return replaced(a.values.at(0).shown(), a.get(1, "old").text(), a.get(2, "new").text());
       }},
      {"reverse", [](const Arguments& a) { return reversed(a.values.at(0)); }},
      {"safe", [](const Arguments& a) { return a.values.at(0); }},
      {"select", [](const Arguments& a) { return selected(a, true, false); }},
      {"selectattr", [](const Arguments& a) { return selected(a, true, true); }},
      {"string", [](const Arguments& a) { return a.values.at(0).shown(); }},
      {"title", [](const Arguments& a) { return title(a.values.at(0).shown()); }},
      {"tojson",
       [](const Arguments& a) {
         const TemplateValue indent = a.get(1, "indent");
         return json_of(a.values.at(0), indent.is_none() ? 0 : indent.integer());
       }},
      {"trim",
       [](const Arguments& a) {
         const TemplateValue strange = a.get(1, "chars", "");
         return stripped(a.values.at(0).shown(), strange.text(), true, true);
       }},
      {"upper",
       [](const Arguments& a) { return with_case(a.values.at(0).shown(), std::toupper); }}};
  return table;
}

const Table<bool>& tests() {
  const auto equal = [](const Arguments& a) { return equal_values(a.values.at(0), a.get(1, "")); };
  const auto different = [](const Arguments& a) {
    return !equal_values(a.values.at(0), a.get(1, ""));
  };
  static const Table<bool> table = {
      {"boolean", [](const Arguments& a) { return a.values.at(0).is_boolean(); }},
      {"defined", [](const Arguments& a) { return !a.values.at(0).is_undefined(); }},
      {"divisibleby",
       [](const Arguments& a) { return !combined("%", a.values.at(0), a.get(1, "num")).truth(); }},
      {"eq", equal},
      {"equalto", equal},
      {"even", [](const Arguments& a) { return a.values.at(0).integer() % 2 == 0; }},
      {"false",
       [](const Arguments& a) { return a.values.at(0).is_boolean() && !a.values.at(0).truth(); }},
      {"in", [](const Arguments& a) { return contains_value(a.get(1, ""), a.values.at(0)); }},
      {"integer", [](const Arguments& a) { return a.values.at(0).is_integer(); }},
      {"iterable",
       [](const Arguments& a) {
         const auto& value = a.values.at(0);
         return value.is_text() || value.is_list() || value.is_map() || value.is_undefined();
       }},
      {"mapping", [](const Arguments& a) { return a.values.at(0).is_map(); }},
      {"ne", different},
      {"none", [](const Arguments& a) { return a.values.at(0).is_none(); }},
      {"number", [](const Arguments& a) { return a.values.at(0).is_number(); }},
      {"odd", [](const Arguments& a) { return a.values.at(0).integer() % 2 != 0; }},
      {"sequence",
       [](const Arguments& a) {
         const auto& value = a.values.at(0);
         return value.is_text() || value.is_list() || value.is_map() || value.is_undefined();
       }},
      {"string", [](const Arguments& a) { return a.values.at(0).is_text(); }},
      {"true",
       [](const Arguments& a) { return a.values.at(0).is_boolean() && a.values.at(0).truth(); }},
      {"undefined", [](const Arguments& a) { return a.values.at(0).is_undefined(); }}};
  return table;
}

TemplateValue strip_method(const Arguments& a, bool left, bool right) {
  const TemplateValue strange = a.get(1, "chars");
  return stripped(a.values.at(0).text(), strange.is_none() ? "" : strange.text(), left, right);
}

const Table<TemplateValue>& methods() {
  static const Table<TemplateValue> table = {
      {"capitalize", [](const Arguments& a) { return capitalized(a.values.at(0).text()); }},
      {"endswith",
       [](const Arguments& a) { return a.values.at(0).text().ends_with(a.get(1, "").text()); }},
      {"get",
       [](const Arguments& a) {
         const TemplateValue found = member_of(a.values.at(0), a.get(1, ""));
         return found.is_undefined() ? a.get(2, "") : found;
       }},
      {"items", [](const Arguments& a) { return pairs_of(a.values.at(0)); }},
      {"join", [](const Arguments& a) { return joined_text(a.get(1, ""), a.values.at(0).text()); }},
      {"keys", [](const Arguments& a) { return a.values.at(0).items(); }},
      {"lower", [](const Arguments& a) { return with_case(a.values.at(0).text(), std::tolower); }},
      {"lstrip", [](const Arguments& a) { return strip_method(a, true, false); }},
      {"replace",
       [](const Arguments& a) {
         return replaced(a.values.at(0).text(), a.get(1, "").text(), a.get(2, "").text());
       }},
      {"rstrip", [](const Arguments& a) { return strip_method(a, false, true); }},
      {"split",
       [](const Arguments& a) {
         return split_text(a.values.at(0).text(), a.get(1, "sep"),
                           a.get(2, "maxsplit", int64_t{-1}).integer());
       }},
      {"startswith",
       [](const Arguments& a) { return a.values.at(0).text().starts_with(a.get(1, "").text()); }},
      {"strip", [](const Arguments& a) { return strip_method(a, true, true); }},
      {"title", [](const Arguments& a) { return title(a.values.at(0).text()); }},
      {"upper", [](const Arguments& a) { return with_case(a.values.at(0).text(), std::toupper); }},
      {"values", [](const Arguments& a) { return values_of(a.values.at(0)); }}};
  return table;
}

TemplateValue range_of(const Arguments& a) {
  const bool one = a.values.size() == 1;
  const int64_t begin = one ? 0 : a.get(0, "").integer(), end = a.get(one ? 0 : 1, "").integer();
  const int64_t step = a.get(2, "step", int64_t{1}).integer();
  constexpr size_t most = 100'000;  // as Jinja's sandbox
  if (step == 0) template_error("range: a step of 0");
  TemplateList values;
  for (int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    if (values.size() == most) template_error("range: more than 100,000 numbers");
    values.emplace_back(i);
  }
  return values;
}

const Table<TemplateValue>& functions() {
  static const Table<TemplateValue> table = {
      {"dict", [](const Arguments& a) { return a.named; }},
      {"namespace", [](const Arguments& a) { return a.named; }},
      {"raise_exception",
       [](const Arguments& a) -> TemplateValue {
         template_error(
             fmt::format("the template refuses the conversation: {}", a.get(0, "message").shown()));
       }},
      {"range", range_of}};
  return table;
}

}  // namespace

TemplateValue TemplateArguments::get(size_t place, const std::string& name,
                                     TemplateValue otherwise) const {
  if (place < values.size()) return values[place];
  for (const auto& [key, value] : named)
    if (key == name) return value;
  return otherwise;
}

const std::vector<std::string>& template_filter_names() {
  static const auto names = names_of(filters());
  return names;
}
const std::vector<std::string>& template_test_names() {
  static const auto names = names_of(tests());
  return names;
}
const std::vector<std::string>& template_method_names() {
  static const auto names = names_of(methods());
  return names;
}
// strftime_now is left out, and so undefined: a text must not depend on the day.
const std::vector<std::string>& template_function_names() {
  static const std::vector<std::string> names = [] {
    auto all = names_of(functions());
    all.emplace_back("strftime_now");  // called where it is defined
    return all;
  }();
  return names;
}

TemplateValue filtered_value(const std::string& name, const TemplateArguments& arguments) {
  return filters().at(name)(arguments);
}
bool passes_test(const std::string& name, const TemplateArguments& arguments) {
  const auto found = tests().find(name);
  if (found == tests().end()) template_error(fmt::format("the test '{}' is not supported", name));
  return found->second(arguments);
}
TemplateValue method_result(const std::string& name, const TemplateArguments& arguments) {
  if (arguments.values.at(0).is_undefined())
    template_error(fmt::format("'{}' is undefined", arguments.values[0].name()));
  return methods().at(name)(arguments);
}
TemplateValue function_result(const std::string& name, const TemplateArguments& arguments) {
  const auto found = functions().find(name);
  if (found == functions().end()) template_error(fmt::format("'{}' is undefined", name));
  return found->second(arguments);
}

}  // namespace booster::text
