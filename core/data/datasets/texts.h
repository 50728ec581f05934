// Data sets of texts: sequences of tokens of any length in rows, padded or packed; conversations
// and answers; texts with hidden tokens. Streams of lines.
//
//   auto talks = std::make_shared<Conversations>("talks.jsonl", tokenizer, chat_template);
//   DataLoader loader = booster.prepare_dataloader(PaddedSequences(talks, {.length = 2048}), ...);
//
// A sample has token ids (n) and labels (n), both i64. The label of a place is the next token, or
// ignored_token where the loss ignores it. All are immutable and thread-safe.
#pragma once

#include "core/data/datasets/datasets.h"
#include "core/text/tokenizer.h"

#include <nlohmann/json_fwd.hpp>

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace booster {

inline constexpr int64_t ignored_token = -100;  // CrossEntropyOptions::ignore_index

class TokenSequences {
 public:
  virtual ~TokenSequences() = default;
  virtual int64_t size() const = 0;
  virtual int64_t length(int64_t sequence) const = 0;  // in tokens
  // Writes tokens `start`, `start` + 1, ... of a sequence and their labels. The caller stays within
  // the length. The last token's label is ignored.
  virtual void read(int64_t sequence, int64_t start, std::span<int64_t> tokens,
                    std::span<int64_t> labels) const = 0;
  // Returns the first place whose label is not ignored.
  virtual int64_t first_label(int64_t /*sequence*/) const { return 0; }
  // Distinguishes contents, as DatasetIdentity does.
  virtual uint64_t fingerprint() const = 0;
};

// --- one sequence to a row

struct PaddedOptions {
  int64_t length = 1024;   // longer sequences lose their end
  bool to_length = false;  // pad every row to `length`; else to the longest of its batch
  int64_t multiple = 1;    // of which a batch's length is one; ranks that share tokens need it
  int64_t pad_token = 0;   // after the sequence, with ignored labels
};

// A sequence whose labels are all ignored within `length` is left out.
class PaddedSequences : public Dataset {
 public:
  // Throws for sizes below 1, for a length that is no multiple, and if no sequence is left.
  explicit PaddedSequences(std::shared_ptr<const TokenSequences> sequences,
                           PaddedOptions options = {});
  int64_t size() const override { return static_cast<int64_t>(kept_.size()); }
  Sample load(int64_t index, RandomStream& random) const override;
  Sample load_in_batch(int64_t index, std::span<const int64_t> batch,
                       RandomStream& random) const override;
  DatasetIdentity identity() const override;
  int64_t left_out() const { return sequences_->size() - size(); }

 private:
  int64_t length_of(int64_t index) const;
  Sample padded(int64_t index, int64_t length) const;

  std::shared_ptr<const TokenSequences> sequences_;
  PaddedOptions options_;
  std::vector<int64_t> kept_;  // sequences
};

// --- packed rows
//
// The number of end tokens before a place is the number of its document, so an end token belongs to
// the document that it ends. A model that keeps attention within documents counts end tokens in the
// row (document_end of core/nn/models.h); no other input says where documents are.
// What is left of a row is filled with end tokens. No label crosses a boundary.

struct PackedOptions {
  int64_t length = 1024;     // of a row
  int32_t document_end = 0;  // the last token of every sequence
  uint64_t seed = 42;        // of the order in which sequences are packed
  // A sequence longer than a row goes on in other rows; its last part shares one. false: it loses
  // its end, and is left out if no label is left.
  bool split = true;
};

// Sequences take their places in a drawn order, each in the first row that has room (first fit).
// Rows depend on the options alone, so that a loader resumes among them like among other samples.
class PackedSequences : public Dataset {
 public:
  // Throws for a sequence that does not end with document_end, or has it elsewhere, as far as the
  // kind of sequences does not exclude that.
  explicit PackedSequences(std::shared_ptr<const TokenSequences> sequences,
                           PackedOptions options = {});
  int64_t size() const override { return static_cast<int64_t>(rows_.size()) - 1; }
  Sample load(int64_t index, RandomStream& random) const override;
  DatasetIdentity identity() const override;
  int64_t left_out() const { return left_out_; }
  // Returns the share of all places that hold tokens of sequences.
  double fill() const;

 private:
  struct Piece {
    int64_t sequence, start, count;
  };
  std::vector<Piece> pieces_of(int64_t sequence) const;

  std::shared_ptr<const TokenSequences> sequences_;
  PackedOptions options_;
  std::vector<Piece> pieces_;  // row by row
  std::vector<int64_t> rows_;  // where each row's pieces begin, and the end
  int64_t left_out_ = 0;
};

// --- the documents of token files

// Parts files at the token that ends documents. A last document without one gets one. Documents
// without any other token are skipped.
class TokenDocuments : public TokenSequences {
 public:
  TokenDocuments(std::vector<std::shared_ptr<const TokenFile>> files, int32_t document_end);
  int64_t size() const override { return static_cast<int64_t>(documents_.size()); }
  int64_t length(int64_t sequence) const override;
  void read(int64_t sequence, int64_t start, std::span<int64_t> tokens,
            std::span<int64_t> labels) const override;
  uint64_t fingerprint() const override;

 private:
  struct Document {
    size_t file;
    int64_t begin, length;  // with the end token
  };
  void part(size_t file);

  std::vector<std::shared_ptr<const TokenFile>> files_;
  int32_t document_end_;
  std::vector<Document> documents_;
};

// --- Conversations and answers of a file of JSON lines, for fine-tuning:
//
//   {"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello!"}]}
//   {"prompt": "2 + 2 =", "completion": " 4"}
//   {"prompt": [{"role": "user", ...}], "completion": [{"role": "assistant", ...}]}
//
// Messages become text by the model's chat template, prompts and completions by joining them. Only
// the tokens of answers have labels. Immutable; thread-safe.

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

// --- Texts with hidden tokens, from which a masked language model learns (Devlin et al., "BERT",
// 2019, section 3.1).
//
//   const TokenFilesDataset windows({{book, 1}}, {.length = 510});
//   const MaskedTokens masked(windows, {.vocab_size = 30522, .mask_token = 103,
//                                       .special_tokens = {0, 101, 102}, .first_token = 101,
//                                       .last_token = 102});
//   // a batch: image (n, 512) i64, the model's input; label (n, 512) i64, -100 where not hidden
//
// What is hidden depends on the loader's seed, the epoch and the sample alone: each epoch hides
// other tokens, and a training resumes exactly on any number of ranks. Immutable; thread-safe.

// Shares have the names of transformers' DataCollatorForLanguageModeling.
struct MaskedTokensOptions {
  int64_t vocab_size = 0;                    // must be given
  int64_t mask_token = -1;                   // [MASK]; must be given
  std::vector<int64_t> special_tokens = {};  // never chosen: [CLS], [SEP], padding
  double mlm_probability = 0.15;             // of a token to be chosen
  double mask_replace_prob = 0.8;            // chosen tokens that become mask_token
  double random_replace_prob = 0.1;          // that become any token; the others stay as they are
  std::optional<int64_t> first_token = {};   // put before each sample: [CLS]; never chosen
  std::optional<int64_t> last_token = {};    // put after it: [SEP]; never chosen
};

// Each token of a sample is chosen by itself; of a sample without one, a token is drawn. The label
// of a chosen token is the token, that of others -100, which cross_entropy ignores. Labels of the
// data set are not used.
class MaskedTokens : public Dataset {
 public:
  // Samples are tokens (n), whole numbers. Throws for options that make no sense.
  MaskedTokens(std::shared_ptr<const Dataset> dataset, MaskedTokensOptions options);
  template <std::derived_from<Dataset> D>
  MaskedTokens(D dataset, MaskedTokensOptions options)
      : MaskedTokens(std::shared_ptr<const Dataset>(std::make_shared<D>(std::move(dataset))),
                     std::move(options)) {}
  int64_t size() const override { return dataset_->size(); }
  Sample load(int64_t index, RandomStream& random) const override;
  // Given by the data set and the options.
  DatasetIdentity identity() const override;

 private:
  std::vector<int64_t> tokens_of(int64_t index, RandomStream& random) const;

  std::shared_ptr<const Dataset> dataset_;
  MaskedTokensOptions options_;
};

// --- streams of lines

struct LineOptions {
  int64_t shards = 0;  // parts of the files, by bytes; 0: one for each MiB, 1, 2, 4, ... or 64
};
// Returns a stream of the lines of files, in order, without their ends ("\n" or "\r\n"). `sample`
// makes a sample of a line; several threads call it. A path may name a pipe ("/dev/stdin"). Then
// there is one shard, which can be read once, and a resumed run must be given the same lines again.
std::shared_ptr<const StreamDataset> text_lines(
    std::vector<std::filesystem::path> files,
    std::function<Sample(const std::string& line, RandomStream& random)> sample,
    const LineOptions& options = {});
// The same for a JSON value in each line. Blank lines are skipped. A line that is not JSON, or
// whose value `sample` cannot use, is a bad sample (DataLoaderOptions::on_bad_image).
std::shared_ptr<const StreamDataset> json_lines(
    std::vector<std::filesystem::path> files,
    std::function<Sample(const nlohmann::json& value, RandomStream& random)> sample,
    const LineOptions& options = {});

}  // namespace booster
