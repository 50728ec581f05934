// Strict reading of JSON (RFC 8259) that remembers the position of every value.
//
// It refuses the following, with file, line, column and the key's path: a file over the limits,
// nesting too deep, duplicate keys, NaN and Infinity, numbers outside int64 or double, invalid
// UTF-8, lone surrogates, \u0000, a byte order mark, comments, trailing data, an empty file, and
// anything that is not a regular file. No input crashes it. Thread-safe: functions share no state.
#pragma once

#include "platform/error.h"

#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace booster {

struct JsonLimits {
  size_t bytes = size_t{1} << 20;
  size_t depth = 64;
  size_t nodes = 100'000;
  bool unsigned_integers = false;  // accept 2^63 to 2^64 - 1 (random states); never in a config
};

// Counted from 1; a column is a character, not a byte. Line 0 means that the value is not from a
// file.
struct JsonPosition {
  int line = 0;
  int column = 0;
};

enum class JsonKind : uint8_t { null, boolean, integer, number, string, array, object };

struct JsonValue {
  JsonKind kind = JsonKind::null;
  std::string key;               // its name, if it is a member of an object
  JsonPosition key_position;     // of the name
  JsonPosition position;         // of the first character of the value
  std::string origin;            // "--set optimizer.lr=2" if it overrides the file, else empty
  nlohmann::json scalar;         // the value, if it is neither array nor object
  std::vector<JsonValue> items;  // of an array or object, in the file's order

  // Returns the member of that name, or null.
  const JsonValue* find(std::string_view name) const;
  JsonValue* find(std::string_view name);
  nlohmann::json to_json() const;
  nlohmann::ordered_json to_ordered_json() const;  // members in the file's order
};

// `name` identifies the text in errors. Throws an Error of `kind`.
JsonValue parse_json(std::string_view text, const std::string& name, const JsonLimits& limits = {},
                     ErrorKind kind = ErrorKind::usage);
JsonValue read_json(const std::filesystem::path& path, const JsonLimits& limits = {},
                    ErrorKind kind = ErrorKind::usage);

// Returns nlohmann_json's description of the error, without the position and the quoted input.
std::string json_problem(const nlohmann::json::exception& error);

// Returns "file.json:3:7", the position of the value or its key, or the origin of an override.
std::string place_of(const std::string& file, const JsonValue& value);
std::string place_of_key(const std::string& file, const JsonValue& value);

// Returns the text as a JSON string in printable ASCII, shortened to about 60 characters; safe to
// print.
std::string show_text(std::string_view text);
// Returns a value as shown in errors: `2`, `"abc"`, `an object`.
std::string show_value(const JsonValue& value);
// Returns "train.epochs" for "train" and "epochs"; a name with characters other than letters,
// digits, _ and - is quoted.
std::string join_key(const std::string& path, std::string_view name);

}  // namespace booster
