// Texts to files of tokens, which core/data/datasets/token_files.h reads.
#pragma once

#include "core/text/tokenizer.h"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace booster {

struct TokenizeOptions {
  std::string text_key = "text";          // of JSON lines (FILE.jsonl): where the text is
  std::optional<int32_t> end_token = {};  // added after each document
  int threads = 0;                        // 0: one per processor
  // Called now and then with the bytes of text done and all bytes.
  std::function<void(uint64_t done, uint64_t all)> progress = {};
};

struct TokenizeResult {
  uint64_t documents = 0, tokens = 0, bytes = 0;
  int bytes_per_token = 0;  // 2 if every token number fits, else 4
  bool resumed = false;     // continued an earlier run that had been stopped
};

// Writes the tokens of the texts to `output`, one after another, and OUTPUT.json, which describes
// them. Each line of a .jsonl file is a document; any other file is one document, or several where
// it has the end token's text. The tokeniser's template (such as [CLS]) is not applied.
//
// A run that was stopped goes on where it was when it is started again with the same files,
// tokeniser and options; the result is the same. Until then the tokens are in OUTPUT.part. Throws
// an error of kind data, with file and line, for a line that is no JSON object with that key.
TokenizeResult tokenize_files(const Tokenizer& tokenizer,
                              const std::vector<std::filesystem::path>& texts,
                              const std::filesystem::path& output,
                              const TokenizeOptions& options = {});

}  // namespace booster
