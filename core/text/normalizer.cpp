#include "core/text/normalizer.h"

#include "core/text/unicode/byte_level.h"
#include "core/text/unicode/unicode.h"

#include <map>
#include <vector>

namespace booster::text {
namespace {

std::string stripped(std::string text, bool left, bool right) {
  size_t first = text.size(), last = 0;
  for_each_character(text, [&](char32_t code, size_t at, int bytes) {
    if (is_white_space(code)) return;
    first = std::min(first, at);
    last = at + static_cast<size_t>(bytes);
  });
  const size_t start = left ? first : 0;
  const size_t end = right ? std::max(last, start) : text.size();
  return text.substr(start, end - start);
}

// The ranges of CJK that BERT takes apart (tokenization.py of google-research/bert).
bool is_chinese(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

bool is_line_white_space(char32_t code) { return code == '\t' || code == '\n' || code == '\r'; }

std::string without_control(std::string_view text) {
  std::string result;
  for_each_character(text, [&](char32_t code, size_t, int) {
    const bool control = !is_line_white_space(code) && is_other(code);
    if (code == 0 || code == 0xFFFD || control) return;
    append(result, is_white_space(code) ? U' ' : code);
  });
  return result;
}

std::string with_spaced_chinese(std::string_view text) {
  std::string result;
  for_each_character(text, [&](char32_t code, size_t, int) {
    if (is_chinese(code)) result += ' ';
    append(result, code);
    if (is_chinese(code)) result += ' ';
  });
  return result;
}

std::string without_accents(std::string_view text) {
  return filtered(normalised(text, NormalForm::nfd),
                  [](char32_t code) { return !is_mark_nonspacing(code); });
}

Normalizer bert(const Description& d) {
  const bool lower = d.flag("lowercase", true);
  return [clean = d.flag("clean_text", true), chinese = d.flag("handle_chinese_chars", true),
          accents = d.flag("strip_accents", lower), lower](std::string text) {
    if (clean) text = without_control(text);
    if (chinese) text = with_spaced_chinese(text);
    if (accents) text = without_accents(text);
    return lower ? lowered(text) : text;
  };
}

Normalizer sequence(const Description& d) {
  std::vector<Normalizer> stages;
  for (const auto& stage : d.items("normalizers")) stages.push_back(normalizer_from(stage));
  return [stages](std::string text) {
    for (const auto& stage : stages) text = stage(std::move(text));
    return text;
  };
}

Normalizer form(NormalForm form) {
  return [form](std::string text) { return normalised(text, form); };
}

using Maker = Normalizer (*)(const Description&);

const std::map<std::string, Maker>& makers() {
  static const std::map<std::string, Maker> table = {
      {"BertNormalizer", bert},
      {"ByteLevel",
       [](const Description&) -> Normalizer {
         return [](std::string text) { return characters_of_bytes(text); };
       }},
      {"Lowercase",
       [](const Description&) -> Normalizer {
         return [](std::string text) { return lowered(text); };
       }},
      {"NFC", [](const Description&) { return form(NormalForm::nfc); }},
      {"NFD", [](const Description&) { return form(NormalForm::nfd); }},
      {"NFKC", [](const Description&) { return form(NormalForm::nfkc); }},
      {"NFKD", [](const Description&) { return form(NormalForm::nfkd); }},
      {"Prepend",
       [](const Description& d) -> Normalizer {
         return [prefix = d.text("prepend")](std::string text) {
           return text.empty() ? text : prefix + text;
         };
       }},
      {"Replace",
       [](const Description& d) -> Normalizer {
         return [pattern = d.pattern(), content = d.text("content")](std::string text) {
           return pattern.replaced(text, content);
         };
       }},
      {"Sequence", sequence},
      {"Strip",
       [](const Description& d) -> Normalizer {
         return [left = d.flag("strip_left", true), right = d.flag("strip_right", true)](
                    std::string text) { return stripped(std::move(text), left, right); };
       }},
      {"StripAccents",
       [](const Description&) -> Normalizer {
         return [](std::string text) {
           return filtered(text, [](char32_t code) { return !is_mark(code); });
         };
       }},
  };
  return table;
}

}  // namespace

Normalizer normalizer_from(const Description& description) {
  std::vector<std::string> names;
  for (const auto& [name, maker] : makers()) names.push_back(name);
  return makers().at(description.type(names))(description);
}

}  // namespace booster::text
