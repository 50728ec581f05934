// Files of tokens, read from disk as they are needed, for language models.
//
//   auto book = std::make_shared<TokenFile>("book.bin");
//   TokenFilesDataset train({{book, 3}, {web, 1}}, {.length = 1024});   // three windows of book to
//                                                                       // one of web
//   // a batch: image (n, 1024) i64, the model's input; label (n, 1024) i64, the next tokens
#pragma once

#include "core/data/dataset.h"

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace booster {

struct TokenFormat {
  int bytes = 0;  // per token in files without a header: 2 (nanoGPT) or 4, little-endian, unsigned;
                  // 0: what `booster tokenize` noted in PATH.json, else 2
};

// A file of tokens, mapped into memory. Recognises the headers of llm.c, and Megatron's pair of
// .bin and .idx; anything else is tokens alone, as nanoGPT and `booster tokenize` write them.
// Immutable and thread-safe.
class TokenFile {
 public:
  // Throws an error of kind data if the file cannot be read, ends within a token or contradicts its
  // header.
  explicit TokenFile(const std::string& path, TokenFormat format = {});
  ~TokenFile();
  TokenFile(const TokenFile&) = delete;
  TokenFile& operator=(const TokenFile&) = delete;

  const std::string& path() const { return path_; }
  int64_t size() const { return count_; }  // tokens
  // Writes tokens start ... start + out.size() - 1. The caller stays within size().
  void read(int64_t start, std::span<int64_t> out) const;
  // The file's bytes without a header.
  std::span<const std::byte> bytes() const;

 private:
  void map();
  void find_tokens(TokenFormat format);
  bool read_llm_c_header();
  bool read_megatron_index();

  std::string path_;
  const std::byte* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
  size_t offset_ = 0;  // of the first token, in bytes
  int width_ = 2;      // bytes of a token
  int64_t count_ = 0;
};

struct WeightedTokens {
  std::shared_ptr<const TokenFile> file;
  double weight = 1;  // its share of the samples, relative to the others'
};

struct TokenFilesOptions {
  int64_t length = 1024;
  int64_t stride = 0;  // from one window's start to the next; 0: length, so that none overlap
  int64_t samples =
      0;  // in an epoch; 0: until the first file, by its weight, has given all windows
};

// Sample i has `length` tokens of one file; its label is the tokens one place later. Files take
// turns so that after any number of samples each has given its share, to within one sample. A file
// that has given all of its windows begins again.
class TokenFilesDataset : public Dataset {
 public:
  // Throws for files shorter than length + 1 tokens and for weights that are not positive.
  TokenFilesDataset(std::vector<WeightedTokens> files, TokenFilesOptions options = {});
  int64_t size() const override { return samples_; }
  Sample load(int64_t index, RandomStream& random) const override;
  // Given by the options, weights, sizes and the first MiB of each file.
  DatasetIdentity identity() const override;

 private:
  struct Turn {
    uint32_t file;
    int64_t window;
  };
  int64_t windows_of(size_t file) const;
  int64_t samples_of_an_epoch() const;
  void take_turns();
  Turn turn_of(int64_t index) const;

  std::vector<WeightedTokens> files_;
  TokenFilesOptions options_;
  int64_t samples_ = 0;
  std::vector<Turn> turns_;  // of each sample, if there are several files
};

}  // namespace booster
