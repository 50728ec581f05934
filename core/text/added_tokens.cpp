#include "core/text/added_tokens.h"

#include "core/text/unicode/unicode.h"

#include <algorithm>
#include <utility>

namespace booster::text {
namespace {

size_t start_of_last(std::string_view text) {
  size_t at = text.size() - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80) --at;
  return at;
}

bool ends_with_word(std::string_view text) {
  return !text.empty() && is_word(character_at(text, start_of_last(text)).code);
}

bool starts_with_word(std::string_view text) {
  return !text.empty() && is_word(character_at(text, 0).code);
}

// Returns where the white space at the text's end begins.
size_t start_of_trailing_space(std::string_view text) {
  while (!text.empty()) {
    const size_t at = start_of_last(text);
    if (!is_white_space(character_at(text, at).code)) break;
    text = text.substr(0, at);
  }
  return text.size();
}

size_t end_of_leading_space(std::string_view text) {
  size_t at = 0;
  while (at < text.size()) {
    const Character c = character_at(text, at);
    if (!is_white_space(c.code)) break;
    at += static_cast<size_t>(c.bytes);
  }
  return at;
}

AddedToken token_from(const Description& d) {
  return {.content = d.text("content"),
          .id = d.member("id").as_id(),
          .special = d.flag("special", false),
          .single_word = d.flag("single_word", false),
          .strip_left = d.flag("lstrip", false),
          .strip_right = d.flag("rstrip", false),
          .normalized = d.flag("normalized", true)};
}

bool stands_alone(std::string_view text, size_t start, size_t end) {
  return !ends_with_word(text.substr(0, start)) && !starts_with_word(text.substr(end));
}

}  // namespace

AddedTokens::AddedTokens(const std::vector<Description>& tokens, const Vocabulary& vocabulary,
                         const Normalizer& normalizer) {
  for (const Description& description : tokens) {
    AddedToken token = token_from(description);
    if (token.content.empty()) continue;
    token.id = vocabulary.id_of(token.content).value_or(token.id);
    ids_[token.content] = token.id;
    if (!token.normalized)
      raw_.add(token.content, token.id);
    else
      normalized_.add(normalizer ? normalizer(token.content) : token.content, token.id);
    tokens_[token.id] = std::move(token);
  }
}

const AddedToken* AddedTokens::token_of(int32_t id) const {
  const auto found = tokens_.find(id);
  return found == tokens_.end() ? nullptr : &found->second;
}

const AddedToken* AddedTokens::token_of(std::string_view content) const {
  const auto found = ids_.find(content);
  return found == ids_.end() ? nullptr : token_of(found->second);
}

bool AddedTokens::is_special(std::string_view content) const {
  const AddedToken* token = token_of(content);
  return token && token->special;
}

Pieces AddedTokens::split(const std::string& text, const Normalizer& normalizer) const {
  Pieces pieces = {{text, std::nullopt, true}};
  find(pieces, raw_);
  if (normalizer)
    for (Piece& piece : pieces)
      if (!piece.token) piece.text = normalizer(std::move(piece.text));
  find(pieces, normalized_);
  std::erase_if(pieces, [](const Piece& piece) { return piece.text.empty(); });
  return pieces;
}

void AddedTokens::find(Pieces& pieces, const Finder& finder) const {
  if (finder.empty()) return;
  Pieces result;
  const auto add = [&](const Piece& whole, size_t start, size_t end, std::optional<int32_t> token) {
    if (start < end)
      result.push_back({whole.text.substr(start, end - start), token, whole.first && start == 0});
  };
  for (Piece& piece : pieces) {
    if (piece.token) {
      result.push_back(std::move(piece));
      continue;
    }
    const std::string_view text = piece.text;
    size_t done = 0;
    for (size_t at = 0; at < text.size();) {
      const auto [length, id] = finder.longest_at(text, at);
      if (length == 0) {
        ++at;
        continue;
      }
      const AddedToken& token = tokens_.at(id);
      size_t start = at, end = at + length;
      at = end;
      if (token.single_word && !stands_alone(text, start, end)) continue;
      if (token.strip_left) start = start_of_trailing_space(text.substr(0, start));
      start = std::max(start, done);
      if (token.strip_right) end += end_of_leading_space(text.substr(end));
      add(piece, done, start, std::nullopt);
      add(piece, start, end, id);
      done = end;
    }
    add(piece, done, text.size(), std::nullopt);
  }
  pieces = std::move(result);
}

void AddedTokens::Finder::add(std::string_view content, int32_t id) {
  int node = 0;
  for (const char byte : content) {
    const auto [next, added] =
        nodes_[static_cast<size_t>(node)].next.try_emplace(byte, static_cast<int>(nodes_.size()));
    node = next->second;
    if (added) nodes_.emplace_back();
  }
  if (node > 0) nodes_[static_cast<size_t>(node)].id = id;
}

std::pair<size_t, int32_t> AddedTokens::Finder::longest_at(std::string_view text, size_t at) const {
  std::pair<size_t, int32_t> longest = {0, -1};
  const Node* node = &nodes_[0];
  for (size_t i = at; i < text.size(); ++i) {
    const auto next = node->next.find(text[i]);
    if (next == node->next.end()) break;
    node = &nodes_[static_cast<size_t>(next->second)];
    if (node->id >= 0) longest = {i + 1 - at, node->id};
  }
  return longest;
}

}  // namespace booster::text
