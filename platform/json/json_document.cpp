#include "platform/json/json_document.h"

#include "platform/files/file.h"
#include "platform/json/foreign_syntax.h"
#include "platform/json/json_text.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <set>

namespace booster {

namespace {

bool is_plain_name(std::string_view name) {
  const auto plain = [](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-';
  };
  return !name.empty() && name.size() <= 60 && std::all_of(name.begin(), name.end(), plain);
}

JsonPosition position_at(std::string_view text, size_t offset) {
  offset = std::min(offset, text.size());
  JsonPosition position{1, 1};
  for (const char c : text.substr(0, offset)) {
    const bool continues_character = (static_cast<unsigned char>(c) & 0xC0) == 0x80;
    if (c == '\n') {
      ++position.line;
      position.column = 1;
    } else if (!continues_character) {
      ++position.column;
    }
  }
  return position;
}

// Builds the tree from nlohmann_json's events. The events carry no position, so a cursor follows
// them through the text: only white space, commas and colons can precede a token.
class TreeBuilder : public nlohmann::json_sax<nlohmann::json> {
 public:
  TreeBuilder(std::string_view text, const std::string& name, const JsonLimits& limits,
              ErrorKind kind)
      : text_(text), name_(name), limits_(limits), kind_(kind) {
    open_.push_back({&root_, {}});
  }

  JsonValue take_root() { return root_.items.empty() ? JsonValue{} : std::move(root_.items[0]); }

  bool null() override { return add_scalar(JsonKind::null, nullptr, 4); }
  bool boolean(bool value) override { return add_scalar(JsonKind::boolean, value, value ? 4 : 5); }
  bool number_integer(number_integer_t value) override {
    return add_scalar(JsonKind::integer, value, number_length());
  }
  bool number_unsigned(number_unsigned_t value) override {
    constexpr auto limit = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
    if (value > limit && !limits_.unsigned_integers) number_too_large();
    return add_scalar(JsonKind::integer, value, number_length());
  }
  bool number_float(number_float_t value, const string_t& digits) override {
    // nlohmann_json rounds whole numbers that do not fit 64 bits.
    if (digits.find_first_of(".eE") == digits.npos) number_too_large();
    return add_scalar(JsonKind::number, value, number_length());
  }
  bool string(string_t& value) override {
    if (value.find('\0') != value.npos) stop(token(), "a string holds \\u0000; want text");
    return add_scalar(JsonKind::string, std::move(value), string_length());
  }
  bool binary(binary_t&) override { return false; }

  bool start_object(size_t) override { return open(JsonKind::object); }
  bool start_array(size_t) override { return open(JsonKind::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(string_t& name) override {
    const size_t begin = token();
    if (name.find('\0') != name.npos) stop(begin, "a key holds \\u0000; want text");
    if (!open_.back().names.insert(name).second) {
      stop(begin, fmt::format("duplicate key {}; want each key once", show_text(name)));
    }
    key_ = std::move(name);
    key_position_ = position_of(begin);
    cursor_ = begin + string_length();
    return true;
  }

  bool parse_error(size_t offset, const std::string&, const nlohmann::json::exception& e) override {
    if (dynamic_cast<const nlohmann::json::out_of_range*>(&e)) number_too_large();
    const size_t at = offset ? offset - 1 : 0;
    const ForeignSyntax foreign = foreign_syntax(text_, at);
    if (!foreign.problem.empty()) stop(foreign.offset, foreign.problem);
    stop(at, json_problem(e));
  }

  [[noreturn]] void stop(size_t offset, const std::string& problem) const {
    const auto [line, column] = position_at(text_, offset);
    const std::string path = path_of_open();
    raise(kind_, fmt::format("{}:{}:{}: {}{}{}", name_, line, column, path,
                             path.empty() ? "" : ": ", problem));
  }

 private:
  struct Open {
    JsonValue* value;
    std::set<std::string> names;  // of the members read so far
  };

  [[noreturn]] void number_too_large() const {
    const size_t begin = token();
    stop(begin, fmt::format("number out of range; got {}, want a 64-bit integer or a double",
                            shortened(text_.substr(begin, number_length()))));
  }
  static std::string shortened(std::string_view digits) {
    if (digits.size() <= 40) return std::string(digits);
    return std::string(digits.substr(0, 30)) + "...";
  }

  size_t token() const { return text_.find_first_not_of(" \t\r\n,:", cursor_); }
  size_t number_length() const {
    const size_t begin = token();
    return std::min(text_.find_first_not_of("+-.0123456789eE", begin), text_.size()) - begin;
  }
  size_t string_length() const {
    const size_t begin = token();
    size_t i = begin + 1;
    while (text_[i] != '"') i += text_[i] == '\\' ? 2 : 1;
    return i + 1 - begin;
  }

  // Positions are requested in ascending order, so each search continues from the previous one.
  JsonPosition position_of(size_t offset) {
    const JsonPosition step = position_at(text_.substr(counted_), offset - counted_);
    if (step.line == 1) {
      last_.column += step.column - 1;
    } else {
      last_ = {last_.line + step.line - 1, step.column};
    }
    counted_ = offset;
    return last_;
  }

  JsonValue& add(JsonKind kind) {
    const size_t begin = token();
    if (++nodes_ > limits_.nodes)
      stop(begin, fmt::format("too many values; want at most {}", limits_.nodes));
    JsonValue& value = open_.back().value->items.emplace_back();
    value.kind = kind;
    value.key = std::move(key_);
    key_.clear();
    value.key_position = key_position_;
    value.position = position_of(begin);
    return value;
  }
  bool add_scalar(JsonKind kind, nlohmann::json scalar, size_t length) {
    const size_t end = token() + length;
    add(kind).scalar = std::move(scalar);
    cursor_ = end;
    return true;
  }
  bool open(JsonKind kind) {
    const size_t begin = token();
    if (open_.size() > limits_.depth) {
      stop(begin, fmt::format("nested too deep; want at most {} levels", limits_.depth));
    }
    JsonValue& value = add(kind);
    open_.push_back({&value, {}});
    cursor_ = begin + 1;
    return true;
  }
  bool close() {
    cursor_ = token() + 1;
    open_.pop_back();
    return true;
  }

  // Includes the key whose value has not been read yet.
  std::string path_of_open() const {
    std::string path;
    for (size_t i = 2; i < open_.size(); ++i) {
      const bool in_array = open_[i - 1].value->kind == JsonKind::array;
      const size_t index = open_[i - 1].value->items.size() - 1;
      path = in_array ? fmt::format("{}[{}]", path, index) : join_key(path, open_[i].value->key);
    }
    return key_.empty() ? path : join_key(path, key_);
  }

  std::string_view text_;
  const std::string& name_;
  const JsonLimits& limits_;
  ErrorKind kind_;
  JsonValue root_;
  std::vector<Open> open_;
  size_t nodes_ = 0;
  size_t cursor_ = 0;
  std::string key_;
  JsonPosition key_position_;
  size_t counted_ = 0;
  JsonPosition last_{1, 1};
};

}  // namespace

const JsonValue* JsonValue::find(std::string_view name) const {
  for (const auto& item : items)
    if (kind == JsonKind::object && item.key == name) return &item;
  return nullptr;
}
JsonValue* JsonValue::find(std::string_view name) {
  return const_cast<JsonValue*>(std::as_const(*this).find(name));
}

namespace {

template <class Json>
Json json_of(const JsonValue& value) {
  Json json = value.scalar;
  if (value.kind == JsonKind::array) {
    json = Json::array();
    for (const auto& item : value.items) json.push_back(json_of<Json>(item));
  } else if (value.kind == JsonKind::object) {
    json = Json::object();
    for (const auto& item : value.items) json[item.key] = json_of<Json>(item);
  }
  return json;
}

}  // namespace

nlohmann::json JsonValue::to_json() const { return json_of<nlohmann::json>(*this); }
nlohmann::ordered_json JsonValue::to_ordered_json() const {
  return json_of<nlohmann::ordered_json>(*this);
}

std::string json_problem(const nlohmann::json::exception& error) {
  const std::string_view what = error.what();
  const size_t begin = what.find(" - ");
  std::string message(begin == what.npos ? what : what.substr(begin + 3));
  const size_t last_read = message.find("; last read:");
  const size_t expected = message.rfind("; expected ");
  std::string tail = expected == message.npos ? "" : message.substr(expected);
  tail.resize(std::min(tail.find("; last read:"), tail.size()));
  const auto printable = [](char c) { return c >= ' ' && c <= '~'; };
  // The text read so far may look like the end of the message.
  if (tail.size() > 60 || !std::all_of(tail.begin(), tail.end(), printable)) tail.clear();
  message.resize(std::min({last_read, expected, message.size()}));
  if (message == "invalid literal")
    message = "not JSON; got a word that is none of true, false and null";
  if (message.size() > 200) message.resize(200);
  if (tail.empty()) return message;
  return message + "; want " + tail.substr(std::string_view("; expected ").size());
}

JsonValue parse_json(std::string_view text, const std::string& name, const JsonLimits& limits,
                     ErrorKind kind) {
  TreeBuilder builder(text, name, limits, kind);
  if (text.size() > limits.bytes) {
    raise(kind, fmt::format("{}: too large; got {} bytes, want at most {}", name, text.size(),
                            limits.bytes));
  }
  if (text.find_first_not_of(json_white_space) == text.npos)
    builder.stop(text.size(), "empty; want a JSON value");
  if (const std::string encoding = foreign_encoding(text); !encoding.empty())
    builder.stop(0, encoding);
  // nlohmann_json treats a zero byte as the end of the text.
  const size_t zero = text.find('\0');
  const bool complete = read_events(text.substr(0, zero), builder);
  if (zero != text.npos || !complete) builder.stop(zero, "a zero byte; want text");
  return builder.take_root();
}

JsonValue read_json(const std::filesystem::path& path, const JsonLimits& limits, ErrorKind kind) {
  return parse_json(read_file(path, limits.bytes, kind), path.string(), limits, kind);
}

std::string place_of(const std::string& file, const JsonValue& value) {
  if (!value.origin.empty()) return value.origin;
  return fmt::format("{}:{}:{}", file, value.position.line, value.position.column);
}

std::string place_of_key(const std::string& file, const JsonValue& value) {
  if (!value.origin.empty()) return value.origin;
  return fmt::format("{}:{}:{}", file, value.key_position.line, value.key_position.column);
}

std::string show_text(std::string_view text) {
  constexpr size_t longest = 60;
  const std::string head(text.substr(0, longest));
  const auto replace = nlohmann::json::error_handler_t::replace;
  const std::string shown = nlohmann::json(head).dump(-1, ' ', true, replace);
  return text.size() <= longest ? shown : shown + "...";
}

std::string show_value(const JsonValue& value) {
  switch (value.kind) {
    case JsonKind::array: return "a list";
    case JsonKind::object: return "an object";
    case JsonKind::string: return show_text(value.scalar.get_ref<const std::string&>());
    default: return value.scalar.dump();
  }
}

std::string join_key(const std::string& path, std::string_view name) {
  const std::string step = is_plain_name(name) ? std::string(name) : show_text(name);
  return path.empty() ? step : path + "." + step;
}

}  // namespace booster
