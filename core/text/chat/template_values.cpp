#include "core/text/chat/template_values.h"

#include "core/text/unicode/unicode.h"
#include "platform/error.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>

namespace booster::text {

namespace {

constexpr size_t longest_text = size_t{1} << 26;  // hostile templates double texts

[[noreturn]] void wrong_kind(const TemplateValue& value, const char* wanted) {
  if (value.is_undefined()) template_error(fmt::format("'{}' is undefined", value.name()));
  template_error(fmt::format("got {}, want {}", value.kind(), wanted));
}

// The characters of a valid UTF-8 text.
std::vector<std::string_view> utf8_characters(std::string_view text) {
  std::vector<std::string_view> characters;
  for (size_t begin = 0; begin < text.size();) {
    size_t end = begin + 1;
    while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) ++end;
    characters.push_back(text.substr(begin, end - begin));
    begin = end;
  }
  return characters;
}

// What str.strip() and str.isspace() of Python take for white space.
bool is_python_space(std::string_view character) {
  static constexpr std::string_view spaces[] = {
      " ",      "\t",     "\n",     "\v",     "\f",     "\r",     "\x1c",   "\x1d",
      "\x1e",   "\x1f",   "\u0085", "\u00a0", "\u1680", "\u2000", "\u2001", "\u2002",
      "\u2003", "\u2004", "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200a",
      "\u2028", "\u2029", "\u202f", "\u205f", "\u3000"};
  return std::ranges::find(spaces, character) != std::end(spaces);
}

TemplateValue limited(std::string text) {
  if (text.size() > longest_text) template_error("a text grows beyond 64 MiB");
  return text;
}

// The place of item `index` of `size`, counted from the end if it is negative.
int64_t item_place(int64_t index, int64_t size) { return index < 0 ? index + size : index; }

bool both_integers(const TemplateValue& a, const TemplateValue& b) {
  return !a.is_float() && !b.is_float();
}

template <class T>
bool ordered(const std::string& operation, const T& a, const T& b) {
  if (operation == "<") return a < b;
  if (operation == "<=") return a <= b;
  return operation == ">" ? a > b : a >= b;
}

TemplateValue calculated(const std::string& operation, const TemplateValue& a,
                         const TemplateValue& b) {
  if (!both_integers(a, b) || operation == "/") {
    const double x = a.number(), y = b.number();
    if ((operation == "/" || operation == "//" || operation == "%") && y == 0)
      template_error("division by zero");
    if (operation == "+") return x + y;
    if (operation == "-") return x - y;
    if (operation == "*") return x * y;
    if (operation == "/") return x / y;
    return operation == "//" ? std::floor(x / y) : x - std::floor(x / y) * y;
  }
  const int64_t x = a.integer(), y = b.integer();
  int64_t result = 0;
  bool overflows = false;
  if (operation == "+")
    overflows = __builtin_add_overflow(x, y, &result);
  else if (operation == "-")
    overflows = __builtin_sub_overflow(x, y, &result);
  else if (operation == "*")
    overflows = __builtin_mul_overflow(x, y, &result);
  else if (y == 0)
    template_error("division by zero");
  else if (y == -1)
    overflows = operation == "//" && __builtin_sub_overflow(0, x, &result);
  else {
    const int64_t rest = x % y, down = rest != 0 && (rest < 0) != (y < 0) ? 1 : 0;
    result = operation == "//" ? x / y - down : rest + down * y;
  }
  if (overflows) template_error("a number beyond 64 bits");
  return result;
}

TemplateValue repeated(const std::string& text, int64_t times) {
  const auto count = static_cast<size_t>(std::max<int64_t>(times, 0));
  if (!text.empty() && count > longest_text / text.size())
    limited(std::string(longest_text + 1, ' '));
  std::string result;
  for (size_t i = 0; i < count; ++i) result += text;
  return result;
}

TemplateValue joined_lists(const TemplateValue& a, const TemplateValue& b) {
  TemplateList all = a.list();
  all.insert(all.end(), b.list().begin(), b.list().end());
  return all;
}

}  // namespace

void template_error(const std::string& problem) { fail_data("{}", problem); }

const std::string& TemplateValue::text() const {
  if (!is_text()) wrong_kind(*this, "a text");
  return std::get<std::string>(value_);
}

int64_t TemplateValue::integer() const {
  if (is_boolean()) return std::get<bool>(value_) ? 1 : 0;
  if (!is_integer()) wrong_kind(*this, "a whole number");
  return std::get<int64_t>(value_);
}

double TemplateValue::number() const {
  return is_float() ? std::get<double>(value_) : static_cast<double>(integer());
}

const TemplateList& TemplateValue::list() const {
  if (!is_list()) wrong_kind(*this, "a list");
  return *std::get<std::shared_ptr<TemplateList>>(value_);
}

TemplateMap& TemplateValue::map() const {
  if (!is_map()) wrong_kind(*this, "a mapping");
  return *std::get<std::shared_ptr<TemplateMap>>(value_);
}

const char* TemplateValue::kind() const {
  static constexpr const char* kinds[] = {"none",           "an undefined value", "a boolean",
                                          "a whole number", "a number",           "a text",
                                          "a list",         "a mapping"};
  return kinds[value_.index()];
}

bool TemplateValue::truth() const {
  if (is_undefined() || is_none()) return false;
  if (is_number()) return number() != 0;
  return size() > 0;
}

std::string TemplateValue::shown() const {
  if (is_text()) return text();
  if (is_undefined()) return "";
  if (is_none()) return "None";
  if (is_boolean()) return truth() ? "True" : "False";
  if (is_integer()) return std::to_string(integer());
  if (!is_float()) wrong_kind(*this, "something to print: a text or a number");
  const std::string shortest = fmt::format("{}", number());
  return shortest.find_first_of(".en") == std::string::npos ? shortest + ".0" : shortest;
}

TemplateList TemplateValue::items() const {
  if (is_undefined()) return {};
  if (is_list()) return list();
  TemplateList result;
  if (is_text()) {
    for (const auto character : utf8_characters(text()))
      result.emplace_back(std::string(character));
  } else {
    for (const auto& [name, value] : map()) result.emplace_back(name);
  }
  return result;
}

int64_t TemplateValue::size() const {
  if (is_text()) return static_cast<int64_t>(utf8_characters(text()).size());
  return static_cast<int64_t>(is_list() ? list().size() : is_undefined() ? 0 : map().size());
}

bool equal_values(const TemplateValue& a, const TemplateValue& b) {
  if (a.is_number() && b.is_number()) return a.number() == b.number();
  if (a.is_undefined() || a.is_none()) return a.is_none() ? b.is_none() : b.is_undefined();
  if (a.is_text()) return b.is_text() && a.text() == b.text();
  if (a.is_list())
    return b.is_list() && std::ranges::equal(a.list(), b.list(), [](const auto& x, const auto& y) {
             return equal_values(x, y);
           });
  if (!a.is_map() || !b.is_map() || a.size() != b.size()) return false;
  return std::ranges::all_of(a.map(), [&](const auto& one) {
    const TemplateValue other = member_of(b, one.first);
    return !other.is_undefined() && equal_values(one.second, other);
  });
}

bool contains_value(const TemplateValue& whole, const TemplateValue& part) {
  if (whole.is_text()) return whole.text().find(part.text()) != std::string::npos;
  return std::ranges::any_of(whole.items(),
                             [&](const auto& item) { return equal_values(item, part); });
}

TemplateValue combined(const std::string& operation, const TemplateValue& a,
                       const TemplateValue& b) {
  if (operation == "==" || operation == "!=") return equal_values(a, b) == (operation == "==");
  if (operation == "~") return limited(a.shown() + b.shown());
  if (operation[0] == '<' || operation[0] == '>') {
    if (a.is_text() && b.is_text()) return ordered(operation, a.text(), b.text());
    return ordered(operation, a.number(), b.number());
  }
  if (operation == "+" && a.is_text()) return limited(a.text() + b.text());
  if (operation == "+" && a.is_list()) return joined_lists(a, b);
  if (operation == "*" && a.is_text()) return repeated(a.text(), b.integer());
  if (operation == "*" && b.is_text()) return repeated(b.text(), a.integer());
  return calculated(operation, a, b);
}

TemplateValue member_of(const TemplateValue& value, const TemplateValue& name) {
  if (value.is_undefined()) template_error(fmt::format("'{}' is undefined", value.name()));
  if (name.is_text()) {
    if (value.is_map())
      for (const auto& [key, item] : value.map())
        if (key == name.text()) return item;
    return UndefinedValue{name.text()};
  }
  if (!value.is_list() && !value.is_text()) return UndefinedValue{name.shown()};
  const TemplateList items = value.items();
  const int64_t place = item_place(name.integer(), static_cast<int64_t>(items.size()));
  if (place < 0 || place >= static_cast<int64_t>(items.size())) return UndefinedValue{name.shown()};
  return items[static_cast<size_t>(place)];
}

TemplateValue slice_of(const TemplateValue& value, const TemplateValue& begin,
                       const TemplateValue& end, const TemplateValue& step) {
  if (!value.is_list() && !value.is_text()) wrong_kind(value, "a list or a text to cut");
  const TemplateList items = value.items();
  const auto size = static_cast<int64_t>(items.size());
  const int64_t by = step.is_none() ? 1 : step.integer();
  if (by == 0) template_error("a slice with step 0");
  const int64_t low = by > 0 ? 0 : -1, high = by > 0 ? size : size - 1;
  const auto bound = [&](const TemplateValue& given, int64_t otherwise) {
    if (given.is_none()) return otherwise;
    return std::clamp(item_place(given.integer(), size), low, high);
  };
  const int64_t from = bound(begin, by > 0 ? low : high), to = bound(end, by > 0 ? high : low);
  TemplateList cut;
  for (int64_t i = from; by > 0 ? i < to : i > to; i += by)
    cut.push_back(items[static_cast<size_t>(i)]);
  if (value.is_list()) return cut;
  std::string text;
  for (const auto& character : cut) text += character.text();
  return text;
}

std::string stripped(std::string_view text, const std::string& strange, bool left, bool right) {
  const auto characters = utf8_characters(text), unwanted = utf8_characters(strange);
  const auto goes = [&](std::string_view character) {
    return strange.empty() ? is_python_space(character)
                           : std::ranges::find(unwanted, character) != unwanted.end();
  };
  size_t begin = 0, end = characters.size();
  while (left && begin < end && goes(characters[begin])) ++begin;
  while (right && begin < end && goes(characters[end - 1])) --end;
  std::string result;
  for (size_t i = begin; i < end; ++i) result += characters[i];
  return result;
}

std::string json_of(const TemplateValue& value, int64_t indent, int64_t depth) {
  if (value.is_none()) return "null";
  if (value.is_boolean()) return value.truth() ? "true" : "false";
  if (value.is_text()) return nlohmann::json(value.text()).dump();
  if (!value.is_list() && !value.is_map()) return value.shown();
  if (value.size() == 0) return value.is_list() ? "[]" : "{}";
  const auto line = [&](int64_t deep) {
    return indent == 0
               ? std::string()
               : "\n" +
                     std::string(static_cast<size_t>(std::min<int64_t>(indent * deep, 4096)), ' ');
  };
  std::string inside;
  const auto add = [&](const std::string& item) {
    if (!inside.empty()) inside += indent == 0 ? ", " : ",";
    inside += line(depth + 1) + item;
  };
  if (value.is_list())
    for (const auto& item : value.list()) add(json_of(item, indent, depth + 1));
  else
    for (const auto& [name, item] : value.map())
      add(nlohmann::json(name).dump() + ": " + json_of(item, indent, depth + 1));
  return (value.is_list() ? "[" : "{") + inside + line(depth) + (value.is_list() ? "]" : "}");
}

}  // namespace booster::text
