// Windows of a long row of tokens, for language models.
//
//   TokenDataset train(read_tokens("train.bin", {.bytes = 2}), {.length = 1024});
//   // a batch: image (n, 1024) i64, what the model sees; label (n, 1024) i64, what it is to say
#pragma once

#include "core/data/dataset.h"

#include <string>

namespace booster {

struct TokenDatasetOptions {
  int64_t length = 1024;
  int64_t stride = 0;  // from the start of a window to the next's; 0: length, so that none overlap
};

// Sample i: tokens i * stride ... + length, and as its label the tokens one place later. Tokens
// behind the last whole window are left out.
class TokenDataset : public Dataset {
 public:
  // `tokens` (n) are whole numbers of any dtype on the CPU. Errors: others, or fewer than length
  // + 1.
  explicit TokenDataset(Tensor tokens, TokenDatasetOptions options = {});
  int64_t size() const override;
  Sample load(int64_t index, RandomStream& random) const override;
  // By the options and the first MiB of the tokens.
  DatasetIdentity identity() const override;

 private:
  Tensor tokens_;
  TokenDatasetOptions options_;
};

struct TokenFileOptions {
  int bytes = 2;  // of a token in the file: 1, 2 or 4, lowest first, no sign
};

// The tokens of a file that holds nothing else, as numpy's tofile writes them: u8 or i32 (n), or
// i64 for tokens of 4 bytes. Error of kind data if it cannot be read or ends within a token.
Tensor read_tokens(const std::string& path, TokenFileOptions options = {});

}  // namespace booster
