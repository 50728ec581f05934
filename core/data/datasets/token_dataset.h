// Windows of a long sequence of tokens, for language models.
//
//   TokenDataset train(read_tokens("train.bin", {.bytes = 2}), {.length = 1024});
//   // a batch: image (n, 1024) i64, the model's input; label (n, 1024) i64, the next tokens
#pragma once

#include "core/data/dataset.h"

#include <string>

namespace booster {

struct TokenDatasetOptions {
  int64_t length = 1024;
  int64_t stride = 0;  // from one window's start to the next; 0: length, so that none overlap
};

// Sample i has tokens i * stride ... + length; its label is the tokens one place later. Tokens
// after the last whole window are dropped.
class TokenDataset : public Dataset {
 public:
  // `tokens` (n) are integers of any dtype on the CPU. Throws for other tensors, and for fewer than
  // length + 1 tokens.
  explicit TokenDataset(Tensor tokens, TokenDatasetOptions options = {});
  int64_t size() const override;
  Sample load(int64_t index, RandomStream& random) const override;
  // Given by the options and the first MiB of the tokens.
  DatasetIdentity identity() const override;

 private:
  Tensor tokens_;
  TokenDatasetOptions options_;
};

struct TokenFileOptions {
  int bytes = 2;  // per token in the file: 1, 2 or 4; little-endian, unsigned
};

// Returns the tokens of a file that holds nothing else, as numpy's tofile writes them: u8 or i32
// (n), or i64 for tokens of 4 bytes. Throws an error of kind data if the file cannot be read or
// ends within a token.
Tensor read_tokens(const std::string& path, TokenFileOptions options = {});

}  // namespace booster
