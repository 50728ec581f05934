// The tokens of a sequence that a module has, for modules that need their positions: rotary
// embeddings, biases by distance, position tables.
//
// Where ranks share the tokens of a sequence (docs/parallelism.md), a module may see only a run of
// them. Counting from 0 is then wrong on all ranks except the first:
//
//   const int64_t tokens = q.size(1), first = first_token(tokens);
//   const Tensor positions = arange(tokens) + static_cast<double>(first);
//
// Each thread has a layout of its own.
#pragma once

#include "core/tensor/tensor.h"

#include <cstdint>

namespace booster {

// Returns the position, in the whole sequence, of the first of `tokens` consecutive tokens; 0 if
// these are all tokens. Where ranks share tokens, throws if `tokens` is neither the total count
// nor this rank's.
int64_t first_token(int64_t tokens);

// --- for plugins that share tokens, and for code that runs parts of a pass again
struct TokenLayout {
  int64_t all = 0;    // tokens of the sequence; 0: no ranks share them
  int64_t first = 0;  // of this rank's
  int64_t here = 0;   // how many this rank has
  Tensor documents = {};  // see core/nn/documents.h; undefined: texts are single documents
};
// Sets the layout for this thread's modules. Returns the previous layout.
TokenLayout set_token_layout(const TokenLayout& layout);
const TokenLayout& token_layout();

// Events on this thread since the last call: a layout was set; and under that layout, a module
// called first_token(), or counted from 0 to this rank's number of tokens (arange).
struct TokenUses {
  bool was_set = false, asked = false, counted = false;
};
TokenUses take_token_uses();
// Notes that arange() makes n values.
void note_counting(int64_t n);

}  // namespace booster
