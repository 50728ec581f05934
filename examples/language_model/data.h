// What a run reads: its tokeniser, and the samples to train and to validate on.
#pragma once

#include <booster/booster.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

namespace language_model {

struct Vocabulary {
  std::optional<booster::Tokenizer> tokenizer;  // files of tokens need none
  std::filesystem::path source;                 // file or folder; empty: a token for each byte
  std::optional<int32_t> document_end;
};

// Opens the tokeniser of data.tokenizer, of the folder `model`, or the one of bytes. Throws for a
// data.document_end that is no token.
Vocabulary open_vocabulary(const booster::Config& config, const std::filesystem::path& model);

// Returns the chat template of the tokeniser's files, if they have one.
std::optional<booster::ChatTemplate> chat_template_of(const Vocabulary& vocabulary);

// Writes the tokeniser's files into the folder of a model.
void save_vocabulary(const Vocabulary& vocabulary, const std::filesystem::path& folder);

struct Data {
  std::shared_ptr<const booster::Dataset> train, validation;
  std::string said;   // a message about them for the user
  bool made = false;  // stories, because no file was given
};

// Throws an Error of kind data if the files that the config names cannot be read.
void check_files(const booster::Config& config);

// Opens the data that the config names. Rank 0 writes the tokens of a text, or of stories, into
// `folder`, which all ranks see; later runs use them again. Throws an Error of kind data for what
// cannot be read, and if train or validation has no sample.
Data open_data(const booster::Config& config, const booster::World& world,
               const Vocabulary& vocabulary, const std::filesystem::path& folder);

// Returns samples first ... first + count - 1 as a batch.
booster::Batch batch_of(const booster::Dataset& data, int64_t first, int64_t count);

}  // namespace language_model
