// The tokeniser of runs without a tokenizer.json: a token for each byte, one that ends documents
// and one that ends the turns of a conversation. Thread-safe.
#pragma once

#include <booster/booster.h>

#include <cstdint>
#include <string>

namespace language_model {

inline constexpr int64_t byte_tokens = 258;
inline constexpr const char* byte_document_end = "<|endoftext|>";  // token 256
inline constexpr const char* byte_turn_end = "<|end|>";            // token 257
inline constexpr int64_t default_vocabulary = 264;  // ranks may cut it; the rest has no text

// Returns its tokenizer.json, which Hugging Face's tokenizers reads too.
std::string byte_tokenizer_json();
// Returns the tokenizer_config.json beside it, with a chat template.
std::string byte_tokenizer_config();

}  // namespace language_model
