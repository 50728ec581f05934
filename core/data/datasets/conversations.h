// Conversations and answers of a file of JSON lines, for fine-tuning:
//
//   {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]}
//   {"prompt": "2 + 2 =", "completion": " 4"}
//   {"prompt": [{"role": "user", ...}], "completion": [{"role": "assistant", ...}]}
//
// Messages become text by the model's chat template, prompts and completions by joining them. Only
// the tokens of answers have labels. Immutable; thread-safe.
#pragma once

#include "core/data/datasets/token_sequences.h"
#include "core/text/chat_template.h"
#include "core/text/tokenizer.h"

#include <optional>
#include <string>
#include <vector>

namespace booster {

struct ConversationOptions {
  std::string answers = "all";  // of each conversation; "last": only the last one
  // Added to each sequence that does not end with it. After a completion the model learns it; after
  // a conversation, whose template ends answers, it has no label. Packing needs it.
  std::optional<int32_t> end_token = {};
  int threads = 0;  // 0: one per processor
};

// Holds all tokens in memory, 4 bytes each. Where text joins an answer within a token, the token
// counts as the answer's.
class Conversations : public TokenSequences {
 public:
  // Throws an error of kind data, with file and line, for what is not one of the three forms above:
  // bad JSON, a role other than system, user and assistant, an empty answer, no answer, messages
  // without a template; for what the template refuses; and for end_token within a sequence.
  Conversations(const std::string& path, const Tokenizer& tokenizer,
                const std::optional<ChatTemplate>& chat_template = {},
                const ConversationOptions& options = {});
  int64_t size() const override { return static_cast<int64_t>(begins_.size()) - 1; }
  int64_t length(int64_t sequence) const override;
  void read(int64_t sequence, int64_t start, std::span<int64_t> tokens,
            std::span<int64_t> labels) const override;
  int64_t first_label(int64_t sequence) const override;
  uint64_t fingerprint() const override;

 private:
  std::span<const int32_t> tokens_of(int64_t sequence) const;

  std::vector<int32_t> tokens_;    // of answers; ~token of all others
  std::vector<size_t> begins_{0};  // of each sequence, and the end
};

}  // namespace booster
