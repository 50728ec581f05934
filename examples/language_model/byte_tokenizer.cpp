#include "examples/language_model/byte_tokenizer.h"

#include <nlohmann/json.hpp>

namespace language_model {

using nlohmann::json;

namespace {

std::string utf8(uint32_t code) {
  if (code < 0x80) return {static_cast<char>(code)};
  return {static_cast<char>(0xC0 | (code >> 6)), static_cast<char>(0x80 | (code & 0x3F))};
}

// GPT-2's printable character of a byte; the others follow from U+0100 on, in order (encoder.py of
// https://github.com/openai/gpt-2).
bool is_printable(uint32_t byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

json byte_vocabulary() {
  json vocabulary = json::object();
  uint32_t next = 0x100;
  for (uint32_t byte = 0; byte < 256; ++byte)
    vocabulary[utf8(is_printable(byte) ? byte : next++)] = byte;
  return vocabulary;
}

// The turn's end is a token of its own: a document's end closes the whole conversation.
constexpr const char* byte_chat_template =
    "{% for message in messages %}{{ message.role + ': ' + message.content + '<|end|>\n' }}"
    "{% endfor %}{% if add_generation_prompt %}{{ 'assistant: ' }}{% endif %}";

}  // namespace

std::string byte_tokenizer_json() {
  const json byte_level = {{"type", "ByteLevel"},
                           {"add_prefix_space", false},
                           {"trim_offsets", true},
                           {"use_regex", true}};
  const auto special = [](int64_t id, const char* content) -> json {
    return {{"id", id},        {"content", content}, {"special", true},    {"single_word", false},
            {"lstrip", false}, {"rstrip", false},    {"normalized", false}};
  };
  const json whole = {
      {"version", "1.0"},
      {"truncation", nullptr},
      {"padding", nullptr},
      {"added_tokens", json::array({special(256, byte_document_end), special(257, byte_turn_end)})},
      {"normalizer", nullptr},
      {"pre_tokenizer", byte_level},
      {"post_processor", nullptr},
      {"decoder", byte_level},
      {"model",
       {{"type", "BPE"},
        {"dropout", nullptr},
        {"unk_token", nullptr},
        {"continuing_subword_prefix", nullptr},
        {"end_of_word_suffix", nullptr},
        {"fuse_unk", false},
        {"byte_fallback", false},
        {"vocab", byte_vocabulary()},
        {"merges", json::array()}}}};
  return whole.dump(1) + "\n";
}

std::string byte_tokenizer_config() {
  const json config = {{"tokenizer_class", "PreTrainedTokenizerFast"},
                       {"eos_token", byte_document_end},
                       {"chat_template", byte_chat_template},
                       {"clean_up_tokenization_spaces", false}};
  return config.dump(1) + "\n";
}

}  // namespace language_model
