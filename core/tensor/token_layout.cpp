#include "core/tensor/token_layout.h"

#include "platform/error.h"

#include <utility>

namespace booster {
namespace {

thread_local TokenLayout layout_now;
thread_local TokenUses uses_so_far;

}  // namespace

int64_t first_token(int64_t tokens) {
  const TokenLayout& now = layout_now;
  if (now.all == 0) return 0;
  uses_so_far.asked = true;
  if (tokens == now.all) return 0;
  check(tokens == now.here,
        "first_token: wrong number of tokens, since ranks share the sequence; got {}, want the {} "
        "of this rank or all {}",
        tokens, now.here, now.all);
  return now.first;
}

TokenLayout set_token_layout(const TokenLayout& layout) {
  uses_so_far.was_set |= layout.all > 0;
  return std::exchange(layout_now, layout);
}

const TokenLayout& token_layout() { return layout_now; }

TokenUses take_token_uses() { return std::exchange(uses_so_far, {}); }

void note_counting(int64_t n) {
  if (layout_now.all > 0 && n == layout_now.here) uses_so_far.counted = true;
}

}  // namespace booster
