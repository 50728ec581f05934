// Tokens that are found in the text before anything else: special tokens such as <|endoftext|>, and
// those that were added to a trained vocabulary.
#pragma once

#include "core/text/normalizer.h"
#include "core/text/pieces.h"
#include "core/text/token_model.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace booster::text {

struct AddedToken {
  std::string content;
  int32_t id = 0;
  bool special = false;      // decoding may leave it out
  bool single_word = false;  // not where letters stand before or after it
  bool strip_left = false;   // it takes the white space before it
  bool strip_right = false;
  bool normalized = true;  // found in the normalised text, else in the text as it came
};

class AddedTokens {
 public:
  AddedTokens() = default;
  // `tokens`: tokenizer.json's array "added_tokens". A token that the vocabulary has keeps the
  // vocabulary's number.
  AddedTokens(const std::vector<Description>& tokens, const Vocabulary& vocabulary,
              const Normalizer& normalizer);

  // Returns `text` in pieces: added tokens, and normalised text between them.
  Pieces split(const std::string& text, const Normalizer& normalizer) const;
  const AddedToken* token_of(int32_t id) const;
  const AddedToken* token_of(std::string_view content) const;
  bool is_special(std::string_view content) const;
  const std::map<int32_t, AddedToken>& all() const { return tokens_; }

 private:
  // Finds the longest of its contents at each place of a text: a tree of bytes.
  class Finder {
   public:
    void add(std::string_view content, int32_t id);
    // Returns the length of the longest content at text[at] and its token; 0 if there is none.
    std::pair<size_t, int32_t> longest_at(std::string_view text, size_t at) const;
    bool empty() const { return nodes_.size() == 1; }

   private:
    struct Node {
      std::map<char, int> next;
      int32_t id = -1;
    };
    std::vector<Node> nodes_ = std::vector<Node>(1);
  };

  void find(Pieces& pieces, const Finder& finder) const;

  std::map<int32_t, AddedToken> tokens_;
  std::map<std::string, int32_t, std::less<>> ids_;
  Finder raw_;
  Finder normalized_;
};

}  // namespace booster::text
