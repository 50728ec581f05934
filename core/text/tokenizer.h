// Text to tokens and back, by the files of Hugging Face's tokenizers.
//
//   const Tokenizer tokenizer = Tokenizer::from_file("gpt2");  // or gpt2/tokenizer.json
//   const std::vector<int32_t> tokens = tokenizer.encode("Hello, world");
//   const std::string text = tokenizer.decode(tokens);
//
// Results equal those of the Python package `tokenizers`. Models: byte-pair encoding (GPT-2, Llama,
// Qwen, Mistral), WordPiece (BERT) and WordLevel. A file that asks for something else (Unigram,
// dropout of merges) is refused by name. A Tokenizer is immutable: any number of threads may use
// one, and copies share its tables.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace booster {

struct EncodeTextOptions {
  bool special_tokens = true;  // add those that the file's template asks for, such as [CLS] or <s>
};

struct DecodeTextOptions {
  bool skip_special_tokens = true;
};

// Tokens of one text or of a pair, with BERT's token_type_ids (0: first, 1: second text).
struct Encoded {
  std::vector<int32_t> tokens;
  std::vector<int32_t> segments;
};

class Tokenizer {
 public:
  // `path`: a tokenizer.json, or a folder that holds one, or a folder with GPT-2's vocab.json and
  // merges.txt. Throws an error of kind data, with the place in the file, for a file that cannot be
  // read or describes what is not supported.
  static Tokenizer from_file(const std::string& path);
  // The same from the text of a tokenizer.json; `name` stands for it in errors.
  static Tokenizer from_json(std::string_view json, const std::string& name = "tokenizer.json");

  // Returns the tokens of `text`. Bytes that are not UTF-8 count as U+FFFD.
  std::vector<int32_t> encode(std::string_view text, EncodeTextOptions options = {}) const;
  // The same with segments; `second` is the other text of a pair.
  Encoded encode_pair(std::string_view first, std::string_view second,
                      EncodeTextOptions options = {}) const;
  // Returns the text of `tokens`. Numbers without a token are skipped.
  std::string decode(std::span<const int32_t> tokens, DecodeTextOptions options = {}) const;

  std::optional<int32_t> id_of(std::string_view token) const;
  std::optional<std::string> token_of(int32_t id) const;
  // Returns one more than the largest number of a token: the rows that an embedding needs.
  int64_t vocabulary_size() const;
  // Returns the SHA-256 of the tokeniser's description.
  const std::string& fingerprint() const;

 private:
  struct Stages;
  explicit Tokenizer(std::shared_ptr<const Stages> stages) : stages_(std::move(stages)) {}
  std::vector<int32_t> sequence(std::string_view text) const;

  std::shared_ptr<const Stages> stages_;
};

// --- texts to files of tokens, which TokenFile (core/data/datasets/datasets.h) reads
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
  bool finished = false;    // an earlier run had written all
};

// Writes the tokens of the texts to `output`, one after another, and OUTPUT.json, which describes
// them. Each line of a .jsonl file is a document; any other file is one document, or several where
// it has the end token's text. The tokeniser's template (such as [CLS]) is not applied.
//
// A run that was stopped goes on where it was when it is started again with the same files,
// tokeniser and options; the result is the same. One that had finished writes nothing. Until a run
// has finished the tokens are in OUTPUT.part. Throws
// an error of kind data, with file and line, for a line that is no JSON object with that key.
TokenizeResult tokenize_files(const Tokenizer& tokenizer,
                              const std::vector<std::filesystem::path>& texts,
                              const std::filesystem::path& output,
                              const TokenizeOptions& options = {});

}  // namespace booster
