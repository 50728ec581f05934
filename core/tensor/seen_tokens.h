// Which tokens of each text attention sees, for blocks that take one tensor, the features. A model
// that finds padding in its input hides it while it runs its blocks:
//
//   const SeenTokens scope(not_equal(ids, padding));      // (n, tokens), bool
//   for (Module* block : blocks) x = (*block)(x);         // attention asks seen_tokens()
//
// Each thread has its own. Recomputation sees what the first run saw.
#pragma once

#include "core/tensor/tensor.h"

namespace booster {

// Returns the mask (n, tokens) of the scope around the caller; undefined if all tokens are seen.
const Tensor& seen_tokens();

// Sets the mask while it lives. An undefined one shows all tokens.
class SeenTokens {
 public:
  explicit SeenTokens(Tensor seen);
  ~SeenTokens();
  SeenTokens(const SeenTokens&) = delete;
  SeenTokens& operator=(const SeenTokens&) = delete;

 private:
  Tensor before_;
};

}  // namespace booster
