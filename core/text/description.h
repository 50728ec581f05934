// One object of a tokenizer.json, with the path that errors name.
#pragma once

#include "core/text/pattern.h"

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace booster::text {

// Every function throws an error of kind data, with file and path, for a value of another kind.
class Description {
 public:
  // `where` is shown in errors: "tokenizer.json: model". The JSON must outlive the description.
  Description(const nlohmann::json& json, std::string where);

  // Fails, naming this object's path.
  [[noreturn]] void refuse(const std::string& problem) const;

  // Returns the member "type". Throws unless it is one of `legal`.
  std::string type(const std::vector<std::string>& legal) const;

  // A member that is missing or null counts as absent.
  bool has(std::string_view name) const;
  Description member(std::string_view name) const;  // an object, or any value; throws if absent
  std::vector<Description> items(std::string_view name) const;  // of an array; throws if absent
  std::vector<Description> items() const;                       // this value is an array

  bool flag(std::string_view name, bool fallback) const;
  int64_t integer(std::string_view name, int64_t fallback) const;
  std::string text(std::string_view name) const;  // throws if absent
  std::string text(std::string_view name, std::string_view fallback) const;
  // Member "pattern": {"String": s} or {"Regex": s}.
  Pattern pattern() const;

  int32_t as_id() const;  // this value is an integer of 0 to 2^31 - 1
  std::string as_text() const;
  const nlohmann::json& json() const { return *json_; }
  const std::string& where() const { return where_; }

 private:
  const nlohmann::json* json_;
  std::string where_;
};

}  // namespace booster::text
