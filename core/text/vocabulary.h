// Tokens and their numbers.
#pragma once

#include "core/text/description.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace booster::text {

struct TextHash {
  using is_transparent = void;
  size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};
template <class Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

class Vocabulary {
 public:
  Vocabulary() = default;
  // From an object {token: number}. Throws an error of kind data if it is none.
  explicit Vocabulary(const Description& description);

  void add(const std::string& token, int32_t id);
  std::optional<int32_t> id_of(std::string_view token) const;
  // Returns null for a number without a token.
  const std::string* token_of(int32_t id) const;
  int32_t largest_id() const { return largest_; }  // -1 without tokens

 private:
  TextMap<int32_t> ids_;
  std::unordered_map<int32_t, const std::string*> tokens_;  // keys of ids_
  int32_t largest_ = -1;
};

}  // namespace booster::text
