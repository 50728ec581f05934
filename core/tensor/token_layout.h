// Which tokens of a sequence a module has in hand, for modules that need their positions: rotary
// embeddings, biases by distance, tables of positions.
//
// Where ranks share the tokens of a sequence (docs/parallelism.md), a module may see a run of them
// only, so that counting from 0 is wrong on all ranks but the first:
//
//   const int64_t tokens = q.size(1), first = first_token(tokens);
//   const Tensor positions = arange(tokens) + static_cast<double>(first);
//
// Each thread has a layout of its own.
#pragma once

#include <cstdint>

namespace booster {

// The position, in the whole sequence, of the first of `tokens` tokens that follow each other: 0
// where these are all. Error where ranks share tokens and `tokens` is neither the number of all nor
// of this rank's.
int64_t first_token(int64_t tokens);

// --- for plugins that share tokens, and for code that runs parts of a pass again
struct TokenLayout {
  int64_t all = 0;    // tokens of the sequence; 0: no ranks share them
  int64_t first = 0;  // of this rank's
  int64_t here = 0;   // how many this rank has
};
// What this thread's modules are given from now on. Returns the layout before.
TokenLayout set_token_layout(const TokenLayout& layout);
const TokenLayout& token_layout();

// What happened on this thread since the last call: whether a layout was set, and while it was, a
// module called first_token(), or counted from 0 to as many tokens as are here (arange).
struct TokenUses {
  bool was_set = false, asked = false, counted = false;
};
TokenUses take_token_uses();
// arange() makes n numbers.
void note_counting(int64_t n);

}  // namespace booster
