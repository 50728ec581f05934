// The third stage of a tokeniser: turns a piece of text into numbers of tokens.
#pragma once

#include "core/text/description.h"
#include "core/text/vocabulary.h"

#include <memory>
#include <string_view>
#include <vector>

namespace booster::text {

class TokenModel {
 public:
  explicit TokenModel(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}
  virtual ~TokenModel() = default;
  // Appends the tokens of `piece`. Thread-safe.
  virtual void encode(std::string_view piece, std::vector<int32_t>& tokens) const = 0;
  const Vocabulary& vocabulary() const { return vocabulary_; }

 protected:
  Vocabulary vocabulary_;
};

// Returns the model that tokenizer.json's "model" describes: BPE, WordPiece or WordLevel. Throws an
// error of kind data for another one, and for one whose parts do not fit each other.
std::shared_ptr<const TokenModel> token_model_from(const Description& description);

}  // namespace booster::text
