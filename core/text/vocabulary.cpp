#include "core/text/vocabulary.h"

#include <algorithm>

namespace booster::text {

Vocabulary::Vocabulary(const Description& description) {
  if (!description.json().is_object()) description.refuse("want an object of tokens and numbers");
  ids_.reserve(description.json().size());
  tokens_.reserve(description.json().size());
  for (const auto& [token, id] : description.json().items())
    add(token, Description(id, "a token's number").as_id());
}

void Vocabulary::add(const std::string& token, int32_t id) {
  const auto at = ids_.insert_or_assign(token, id).first;
  tokens_[id] = &at->first;
  largest_ = std::max(largest_, id);
}

std::optional<int32_t> Vocabulary::id_of(std::string_view token) const {
  const auto found = ids_.find(token);
  if (found == ids_.end()) return std::nullopt;
  return found->second;
}

const std::string* Vocabulary::token_of(int32_t id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : found->second;
}

}  // namespace booster::text
