#include "core/text/detokenizer.h"

#include "core/text/unicode/byte_level.h"
#include "core/text/unicode/unicode.h"

#include <cctype>
#include <map>
#include <optional>

namespace booster::text {
namespace {

using Tokens = std::vector<std::string>;

std::string concatenated(const Tokens& tokens) {
  std::string text;
  for (const auto& token : tokens) text += token;
  return text;
}

void replace_all(std::string& text, std::string_view from, std::string_view to) {
  if (from.empty()) return;
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
}

// English punctuation without the spaces that tokenisation put there; the order matters.
void clean_up(std::string& text) {
  static constexpr std::pair<const char*, const char*> rules[] = {
      {" .", "."},   {" ?", "?"},     {" !", "!"},     {" ,", ","},
      {" ' ", "'"},  {" n't", "n't"}, {" 'm", "'m"},   {" do not", " don't"},
      {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"},
  };
  for (const auto& [from, to] : rules) replace_all(text, from, to);
}

void byte_level(Tokens& tokens) {
  std::string bytes;
  for (const auto& token : tokens) bytes += bytes_of_characters(token).value_or(token);
  tokens = {valid_utf8(bytes)};
}

// Returns the byte of "<0x41>".
std::optional<char> byte_of(const std::string& token) {
  if (token.size() != 6 || !token.starts_with("<0x") || token.back() != '>') return std::nullopt;
  const auto digit = [&](size_t i) { return std::isxdigit(static_cast<unsigned char>(token[i])); };
  // Rust's number parser, which wrote the format, accepts a sign.
  const bool signed_digit = token[3] == '+' && digit(4);
  if (!signed_digit && !(digit(3) && digit(4))) return std::nullopt;
  return static_cast<char>(std::stoi(token.substr(3, 2), nullptr, 16));
}

// Tokens of bytes in a row become the text that they spell, or U+FFFD each if they spell none.
void byte_fallback(Tokens& tokens) {
  Tokens result;
  std::string bytes;
  const auto flush = [&] {
    if (bytes.empty()) return;
    const std::string text = valid_utf8(bytes);
    if (text == bytes)
      result.push_back(text);
    else
      result.insert(result.end(), bytes.size(), "\uFFFD");
    bytes.clear();
  };
  for (auto& token : tokens) {
    if (const auto byte = byte_of(token)) {
      bytes += *byte;
      continue;
    }
    flush();
    result.push_back(std::move(token));
  }
  flush();
  tokens = std::move(result);
}

Decoder metaspace(const Description& d) {
  const std::string mark = d.text("replacement", "\u2581");
  const bool prepended =
      d.text("prepend_scheme", "always") != "never" && d.flag("add_prefix_space", true);
  return [mark, prepended](Tokens& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i)
      replace_all(tokens[i], mark, i == 0 && prepended ? "" : " ");
  };
}

Decoder strip(const Description& d) {
  return [content = d.text("content"), start = d.integer("start", 0),
          stop = d.integer("stop", 0)](Tokens& tokens) {
    for (auto& token : tokens) {
      for (int64_t i = 0; i < start && token.starts_with(content); ++i)
        token.erase(0, content.size());
      for (int64_t i = 0; i < stop && token.ends_with(content); ++i)
        token.resize(token.size() - content.size());
    }
  };
}

Decoder word_piece(const Description& d) {
  return [prefix = d.text("prefix", "##"), clean = d.flag("cleanup", true)](Tokens& tokens) {
    for (size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && tokens[i].starts_with(prefix))
        tokens[i].erase(0, prefix.size());
      else if (i > 0)
        tokens[i].insert(0, 1, ' ');
      if (clean) clean_up(tokens[i]);
    }
  };
}

Decoder sequence(const Description& d) {
  std::vector<Decoder> stages;
  for (const auto& stage : d.items("decoders")) stages.push_back(decoder_from(stage));
  return [stages](Tokens& tokens) {
    for (const auto& stage : stages) stage(tokens);
  };
}

using Maker = Decoder (*)(const Description&);

const std::map<std::string, Maker>& makers() {
  static const std::map<std::string, Maker> table = {
      {"BPEDecoder",
       [](const Description& d) -> Decoder {
         return [suffix = d.text("suffix", "</w>")](Tokens& tokens) {
           for (size_t i = 0; i < tokens.size(); ++i)
             replace_all(tokens[i], suffix, i + 1 == tokens.size() ? "" : " ");
         };
       }},
      {"ByteFallback", [](const Description&) -> Decoder { return byte_fallback; }},
      {"ByteLevel", [](const Description&) -> Decoder { return byte_level; }},
      {"Fuse",
       [](const Description&) -> Decoder {
         return [](Tokens& tokens) { tokens = {concatenated(tokens)}; };
       }},
      {"Metaspace", metaspace},
      {"Replace",
       [](const Description& d) -> Decoder {
         return [pattern = d.pattern(), content = d.text("content")](Tokens& tokens) {
           for (auto& token : tokens) token = pattern.replaced(token, content);
         };
       }},
      {"Sequence", sequence},
      {"Strip", strip},
      {"WordPiece", word_piece},
  };
  return table;
}

}  // namespace

Decoder decoder_from(const Description& description) {
  std::vector<std::string> names;
  for (const auto& [name, maker] : makers()) names.push_back(name);
  return makers().at(description.type(names))(description);
}

}  // namespace booster::text
