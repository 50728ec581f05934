// Byte-pair encoding (Sennrich et al., https://arxiv.org/abs/1508.07909): a piece starts as its
// characters; the neighbours of the lowest rank are joined until no pair has a rank.
#pragma once

#include "core/text/piece_cache.h"
#include "core/text/token_model.h"

namespace booster::text {

class BytePairs : public TokenModel {
 public:
  explicit BytePairs(const Description& description);
  void encode(std::string_view piece, std::vector<int32_t>& tokens) const override;

 private:
  struct Merge {
    int32_t rank = 0;
    int32_t token = 0;  // what the pair becomes
  };
  struct Symbol {
    int32_t token = 0;
    int previous = -1;
    int next = -1;
    bool alive = true;
  };

  void read_merges(const Description& description);
  void add_merge(const Description& where, const std::string& left, const std::string& right);
  const Merge* merge_of(int32_t left, int32_t right) const;
  // Returns the tokens of the piece's characters.
  std::vector<int32_t> characters_of(std::string_view piece) const;
  // Appends the bytes' tokens, <0x00> to <0xFF>, if the vocabulary has all of them.
  bool add_bytes(std::string_view character, std::vector<int32_t>& tokens) const;
  // Appends the tokens of a piece of which no token reaches beyond.
  void encode_word(std::string_view word, std::vector<int32_t>& tokens) const;
  void join_few(std::vector<int32_t>& symbols) const;
  void join_many(std::vector<int32_t>& symbols) const;

  std::unordered_map<uint64_t, Merge> merges_;  // by left token * 2^32 + right token
  std::optional<int32_t> unknown_;
  std::string prefix_;  // of characters after the first, in the vocabulary
  std::string suffix_;  // of the last character
  bool join_unknown_ = false;
  bool bytes_for_unknown_ = false;
  bool whole_first_ = false;  // a piece that is a token needs no merges
  bool words_by_mark_ =
      true;  // no merge crosses the start of a word, "\u2581" after another character
  mutable PieceCache cache_;
};

}  // namespace booster::text
