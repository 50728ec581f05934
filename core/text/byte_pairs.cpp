#include "core/text/byte_pairs.h"

#include "core/text/unicode/unicode.h"

#include <fmt/format.h>

#include <queue>

namespace booster::text {
namespace {

// Up to this many symbols a scan for the lowest rank is faster than a queue.
constexpr size_t few_symbols = 32;
// Longer pieces are rarely met twice.
constexpr size_t longest_cached = 256;

// What Llama 2 and others write for a space.
constexpr std::string_view mark = "\u2581";

// Returns where the first word of `text` ends: before the first mark that follows another
// character.
size_t end_of_word(std::string_view text) {
  bool after_mark = true;
  for (size_t at = 0; at < text.size();) {
    const bool at_mark = text.substr(at).starts_with(mark);
    if (at_mark && !after_mark) return at;
    after_mark = at_mark;
    at += at_mark ? mark.size() : static_cast<size_t>(character_at(text, at).bytes);
  }
  return text.size();
}

uint64_t pair_of(int32_t left, int32_t right) {
  return static_cast<uint64_t>(left) << 32 | static_cast<uint32_t>(right);
}

}  // namespace

BytePairs::BytePairs(const Description& d)
    : TokenModel(Vocabulary(d.member("vocab"))),
      prefix_(d.text("continuing_subword_prefix", "")),
      suffix_(d.text("end_of_word_suffix", "")),
      join_unknown_(d.flag("fuse_unk", false)),
      bytes_for_unknown_(d.flag("byte_fallback", false)),
      whole_first_(d.flag("ignore_merges", false)) {
  if (d.has("dropout") && d.member("dropout").json() != 0)
    d.refuse("dropout of merges is not supported; want null or 0");
  if (d.has("unk_token")) {
    unknown_ = vocabulary_.id_of(d.text("unk_token"));
    if (!unknown_) d.refuse("unk_token '" + d.text("unk_token") + "' is not in the vocabulary");
  }
  words_by_mark_ = prefix_.empty() && suffix_.empty() && vocabulary_.id_of(mark);
  read_merges(d);
}

// Files before version 0.20 write a merge as "left right", later ones as [left, right].
void BytePairs::read_merges(const Description& d) {
  const Description merges = d.member("merges");
  merges_.reserve(merges.json().size());
  for (const Description& merge : merges.items()) {
    if (merge.json().is_array()) {
      const auto sides = merge.items();
      if (sides.size() != 2) merge.refuse("want two tokens");
      add_merge(merge, sides[0].as_text(), sides[1].as_text());
      continue;
    }
    const std::string line = merge.as_text();
    if (line.starts_with("#version")) continue;
    const size_t space = line.find(' ');
    if (space == std::string::npos || line.find(' ', space + 1) != std::string::npos)
      merge.refuse("want two tokens with one space between");
    add_merge(merge, line.substr(0, space), line.substr(space + 1));
  }
}

void BytePairs::add_merge(const Description& where, const std::string& left,
                          const std::string& right) {
  const auto token_of = [&](const std::string& token) {
    const auto id = vocabulary_.id_of(token);
    if (!id) where.refuse("'" + token + "' is not in the vocabulary");
    return *id;
  };
  const std::string joined =
      left + (right.starts_with(prefix_) ? right.substr(prefix_.size()) : right);
  words_by_mark_ = words_by_mark_ && end_of_word(joined) == joined.size();
  const auto rank = static_cast<int32_t>(merges_.size());
  merges_[pair_of(token_of(left), token_of(right))] = {rank, token_of(joined)};
}

const BytePairs::Merge* BytePairs::merge_of(int32_t left, int32_t right) const {
  const auto found = merges_.find(pair_of(left, right));
  return found == merges_.end() ? nullptr : &found->second;
}

void BytePairs::encode(std::string_view piece, std::vector<int32_t>& tokens) const {
  if (whole_first_)
    if (const auto id = vocabulary_.id_of(piece)) return tokens.push_back(*id);
  if (!words_by_mark_) return encode_word(piece, tokens);
  while (!piece.empty()) {
    const size_t end = end_of_word(piece);
    encode_word(piece.substr(0, end), tokens);
    piece.remove_prefix(end);
  }
}

void BytePairs::encode_word(std::string_view piece, std::vector<int32_t>& tokens) const {
  const bool cached = piece.size() <= longest_cached;
  if (cached && cache_.find(piece, tokens)) return;
  std::vector<int32_t> symbols = characters_of(piece);
  if (symbols.size() <= few_symbols)
    join_few(symbols);
  else
    join_many(symbols);
  if (cached) cache_.keep(piece, symbols);
  tokens.insert(tokens.end(), symbols.begin(), symbols.end());
}

std::vector<int32_t> BytePairs::characters_of(std::string_view piece) const {
  std::vector<int32_t> tokens;
  tokens.reserve(piece.size());
  bool unknown = false;  // an unknown token waits, for the next character may join it
  std::string character;
  for_each_character(piece, [&](char32_t, size_t at, int bytes) {
    const size_t end = at + static_cast<size_t>(bytes);
    character.assign(piece.substr(at, end - at));
    if (at > 0) character.insert(0, prefix_);
    if (end == piece.size()) character += suffix_;
    if (const auto id = vocabulary_.id_of(character)) {
      if (unknown) tokens.push_back(*unknown_);
      unknown = false;
      tokens.push_back(*id);
      return;
    }
    if (bytes_for_unknown_ && add_bytes(character, tokens)) return;
    if (!unknown_) return;  // without such a token unknown characters vanish
    if (unknown && !join_unknown_) tokens.push_back(*unknown_);
    unknown = true;
  });
  if (unknown) tokens.push_back(*unknown_);
  return tokens;
}

bool BytePairs::add_bytes(std::string_view character, std::vector<int32_t>& tokens) const {
  const size_t before = tokens.size();
  for (const char byte : character) {
    const auto id = vocabulary_.id_of(fmt::format("<0x{:02X}>", static_cast<unsigned char>(byte)));
    if (!id) {
      tokens.resize(before);
      return false;
    }
    tokens.push_back(*id);
  }
  return true;
}

// Joins by scanning for the lowest rank; of equal ranks the leftmost pair is first.
void BytePairs::join_few(std::vector<int32_t>& symbols) const {
  while (symbols.size() > 1) {
    const Merge* best = nullptr;
    size_t at = 0;
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const Merge* merge = merge_of(symbols[i], symbols[i + 1]);
      if (merge && (!best || merge->rank < best->rank)) {
        best = merge;
        at = i;
      }
    }
    if (!best) return;
    symbols[at] = best->token;
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

// The same by a queue of pairs, in n log n: hostile text has words of many megabytes.
void BytePairs::join_many(std::vector<int32_t>& tokens) const {
  struct Candidate {
    Merge merge;
    int at = 0;
    bool operator>(const Candidate& other) const {
      return merge.rank != other.merge.rank ? merge.rank > other.merge.rank : at > other.at;
    }
  };
  const int count = static_cast<int>(tokens.size());
  std::vector<Symbol> symbols(tokens.size());
  for (int i = 0; i < count; ++i)
    symbols[static_cast<size_t>(i)] = {tokens[static_cast<size_t>(i)], i - 1,
                                       i + 1 < count ? i + 1 : -1, true};
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> queue;
  const auto propose = [&](int at) {
    if (at < 0) return;
    const Symbol& left = symbols[static_cast<size_t>(at)];
    if (left.next < 0) return;
    const Merge* merge = merge_of(left.token, symbols[static_cast<size_t>(left.next)].token);
    if (merge) queue.push({*merge, at});
  };
  for (int i = 0; i + 1 < count; ++i) propose(i);
  while (!queue.empty()) {
    const Candidate top = queue.top();
    queue.pop();
    Symbol& left = symbols[static_cast<size_t>(top.at)];
    if (!left.alive || left.next < 0) continue;
    Symbol& right = symbols[static_cast<size_t>(left.next)];
    const Merge* merge = merge_of(left.token, right.token);
    if (!merge || merge->token != top.merge.token) continue;  // one of the two has changed since
    left.token = top.merge.token;
    left.next = right.next;
    right.alive = false;
    if (left.next >= 0) symbols[static_cast<size_t>(left.next)].previous = top.at;
    propose(left.previous);
    propose(top.at);
  }
  tokens.clear();
  for (const Symbol& symbol : symbols)
    if (symbol.alive) tokens.push_back(symbol.token);
}

}  // namespace booster::text
