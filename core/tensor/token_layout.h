// The tokens of a sequence that this thread's modules have, where ranks share the tokens of a
// sequence (docs/parallelism.md). For plugins that do so, and for code that runs parts of a pass
// again. Modules ask first_token() (core/tensor/tensor.h).
//
// Each thread has its own layout.
#pragma once

#include "core/tensor/tensor.h"

#include <cstdint>

namespace booster {

struct TokenLayout {
  int64_t all = 0;    // tokens of the sequence; 0: no ranks share them
  int64_t first = 0;  // of this rank's
  int64_t here = 0;   // how many this rank has
  Tensor documents = {};  // see core/nn/documents.h; undefined: texts are single documents
};
// Sets the layout for this thread's modules. Returns the previous layout.
TokenLayout set_token_layout(const TokenLayout& layout);
const TokenLayout& token_layout();

// Events on this thread since the last call: a layout was set, and a module under it called
// first_token(), or called arange with this rank's number of tokens.
struct TokenUses {
  bool was_set = false, asked = false, counted = false;
};
TokenUses take_token_uses();
// Notes that arange() makes n values.
void note_counting(int64_t n);

}  // namespace booster
