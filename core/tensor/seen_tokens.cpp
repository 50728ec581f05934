#include "core/tensor/seen_tokens.h"

#include <utility>

namespace booster {
namespace {

thread_local Tensor seen_now;

}  // namespace

const Tensor& seen_tokens() { return seen_now; }

SeenTokens::SeenTokens(Tensor seen) : before_(std::exchange(seen_now, std::move(seen))) {}
SeenTokens::~SeenTokens() { seen_now = std::move(before_); }

}  // namespace booster
