// The config of the example: its sections data, train and inference, and what cannot go together.
#pragma once

#include <booster/booster.h>

namespace language_model {

booster::ProgramConfig program_config();

// The part of config.json that the example reads: the kind of model, vocab_size, and the longest
// text in tokens.
struct ModelSizes {
  std::string type;  // model_type
  int64_t vocabulary = 0, positions = 0;
};
ModelSizes sizes_of(const booster::Model& model);

}  // namespace language_model
