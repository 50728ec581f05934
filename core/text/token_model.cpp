#include "core/text/token_model.h"

#include "core/text/byte_pairs.h"
#include "core/text/unicode/unicode.h"

namespace booster::text {
namespace {

int32_t unknown_of(const Description& d, const Vocabulary& vocabulary, std::string_view fallback) {
  const std::string token = d.text("unk_token", fallback);
  const auto id = vocabulary.id_of(token);
  if (!id) d.refuse("unk_token '" + token + "' is not in the vocabulary");
  return *id;
}

size_t characters_in(std::string_view text) {
  size_t count = 0;
  for (const char c : text) count += (static_cast<unsigned char>(c) & 0xC0) != 0x80;
  return count;
}

// The whole piece is a token, or unknown.
class WordLevel : public TokenModel {
 public:
  explicit WordLevel(const Description& d)
      : TokenModel(Vocabulary(d.member("vocab"))), unknown_(unknown_of(d, vocabulary_, "<unk>")) {}

  void encode(std::string_view piece, std::vector<int32_t>& tokens) const override {
    tokens.push_back(vocabulary_.id_of(piece).value_or(unknown_));
  }

 private:
  int32_t unknown_;
};

// BERT's model: again and again the longest token that the rest of the piece starts with. A piece
// that cannot be made of tokens is one unknown token.
class WordPiece : public TokenModel {
 public:
  explicit WordPiece(const Description& d)
      : TokenModel(Vocabulary(d.member("vocab"))),
        unknown_(unknown_of(d, vocabulary_, "[UNK]")),
        prefix_(d.text("continuing_subword_prefix", "##")),
        most_characters_(static_cast<size_t>(d.integer("max_input_chars_per_word", 100))) {}

  void encode(std::string_view piece, std::vector<int32_t>& tokens) const override {
    const size_t before = tokens.size();
    bool whole = characters_in(piece) <= most_characters_;
    for (size_t start = 0; whole && start < piece.size();) {
      const size_t length = add_longest(piece.substr(start), start > 0, tokens);
      whole = length > 0;
      start += length;
    }
    if (whole) return;
    tokens.resize(before);
    tokens.push_back(unknown_);
  }

 private:
  // Appends the longest token that `rest` starts with and returns its length, or 0 if none does.
  size_t add_longest(std::string_view rest, bool continues, std::vector<int32_t>& tokens) const {
    std::string text = continues ? prefix_ : "";
    const size_t prefix = text.size();
    text += rest;
    while (text.size() > prefix) {
      if (const auto id = vocabulary_.id_of(text)) {
        tokens.push_back(*id);
        return text.size() - prefix;
      }
      while ((static_cast<unsigned char>(text.back()) & 0xC0) == 0x80) text.pop_back();
      text.pop_back();
    }
    return 0;
  }

  int32_t unknown_;
  std::string prefix_;
  size_t most_characters_;
};

}  // namespace

std::shared_ptr<const TokenModel> token_model_from(const Description& d) {
  // Old files name no type; only a BPE model has merges.
  const std::string type = d.has("type")     ? d.type({"BPE", "WordLevel", "WordPiece"})
                           : d.has("merges") ? "BPE"
                                             : "WordPiece";
  if (type == "BPE") return std::make_shared<BytePairs>(d);
  if (type == "WordLevel") return std::make_shared<WordLevel>(d);
  return std::make_shared<WordPiece>(d);
}

}  // namespace booster::text
