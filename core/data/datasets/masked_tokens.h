// Texts with hidden tokens, from which a masked language model learns (Devlin et al., "BERT", 2019,
// section 3.1).
//
//   const TokenFilesDataset windows({{book, 1}}, {.length = 510});
//   const MaskedTokens masked(windows, {.vocab_size = 30522, .mask_token = 103,
//                                       .special_tokens = {0, 101, 102}, .first_token = 101,
//                                       .last_token = 102});
//   // a batch: image (n, 512) i64, the model's input; label (n, 512) i64, -100 where none is
//   hidden
//
// What is hidden depends on the loader's seed, the epoch and the sample alone: each epoch hides
// other tokens, and a training resumes exactly on any number of ranks. Immutable; thread-safe.
#pragma once

#include "core/data/dataset.h"

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace booster {

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

}  // namespace booster
