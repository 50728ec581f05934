// StateReader: reads a checkpoint's JSON value by value and trusts none. Each value's type and
// range are checked; each Error (kind data) names the file, the key's path, what is there and what
// is wanted. A reader points into the JSON and must not outlive it.
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
  // `file`, and the value's `path` within it, are for messages.
  StateReader(const nlohmann::json& value, std::string file, std::string path = "")
      : value_(&value), file_(std::move(file)), path_(std::move(path)) {}

  // Returns the values of an object with exactly these members, in this order. It may also have the
  // members in `newer`, which older versions did not write.
  std::vector<StateReader> members(std::initializer_list<const char*> names,
                                   std::initializer_list<const char*> newer = {}) const;
  // Reads a member of an object that may have others. find() returns none if it is missing or null.
  StateReader member(const std::string& name) const;
  std::optional<StateReader> find(const std::string& name) const;
  // Returns the items of a list; throws unless there are exactly `size`, if given.
  std::vector<StateReader> items(std::optional<size_t> size = {}) const;
  std::vector<StateReader> nonempty_items() const;

  std::string text() const;
  bool flag() const;
  double number() const;     // finite
  int64_t count() const;     // integer, 0 to 2^53
  int64_t positive() const;  // integer, 1 to 2^53
  int64_t whole_from(int64_t least) const;  // integer, `least` to 2^53; -1: a count may be absent
  uint64_t bits() const;     // integer, 0 to 2^64 - 1
  // Returns an object of arbitrary content, which the program defines.
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
