// The config of the example: its sections data, train and inference, and what cannot go together.
#pragma once

#include <booster/booster.h>

namespace language_model {

booster::ProgramConfig program_config();

// Returns the part of config.json that the example reads: vocab_size, and the longest text in
// tokens.
struct ModelSizes {
  int64_t vocabulary = 0, positions = 0;
};
ModelSizes sizes_of(const booster::Model& model);

}  // namespace language_model
