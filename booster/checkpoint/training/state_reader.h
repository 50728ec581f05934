// StateReader: a checkpoint's JSON, read value by value. Nothing is believed: each has its type and
// its range, and each Error (kind data) names the file, the key's path, what is there and what is
// wanted. A reader points into the JSON and must not outlive it.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace booster {

class StateReader {
 public:
  // `file` and `path`, where in it the value stands, are for messages.
  StateReader(const nlohmann::json& value, std::string file, std::string path = "")
      : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

  // The values of an object with exactly these members, in this order; it may also have those of
  // `newer`, which older versions did not write.
  std::vector<StateReader> members(std::initializer_list<const char*> names,
                                   std::initializer_list<const char*> newer = {}) const;
  // A member of an object that may have others; the second is none where it is missing or null.
  StateReader member(const std::string& name) const;
  std::optional<StateReader> find(const std::string& name) const;
  // Of a list; of exactly `size`, if that is given.
  std::vector<StateReader> items(std::optional<size_t> size = {}) const;
  std::vector<StateReader> nonempty_items() const;

  std::string text() const;
  bool flag() const;
  double number() const;     // finite
  int64_t count() const;     // whole, 0 to 2^53
  int64_t positive() const;  // whole, 1 to 2^53
  int64_t whole_from(int64_t least) const;  // to 2^53; -1 for a count that may be none yet
  uint64_t bits() const;     // whole, 0 to 2^64 - 1
  // An object of the program's own.
  const nlohmann::json& object() const;
  std::map<std::string, double> numbers() const;
  std::map<std::string, int64_t> counts() const;
  std::map<std::string, std::string> texts() const;

 private:
  [[noreturn]] void wrong(const std::string& want) const;
  template <class T>
  std::map<std::string, T> map_of(T (StateReader::*read)() const) const;

  const nlohmann::json* value_;
  std::string file_, path_;
};

}  // namespace booster
