#include "core/nn/key_value_cache.h"

#include "core/tensor/tensor.h"

#include <algorithm>

namespace booster {
namespace {

thread_local KeyValueCache* cache_now = nullptr;

// Copies x into tokens [at, at + x.size(2)) of `whole`, which grows by doubling.
void put(Tensor& whole, const Tensor& x, int64_t at) {
  const int64_t needed = at + x.size(2), capacity = whole.defined() ? whole.size(2) : 0;
  if (needed > capacity) {
    const Shape shape = {x.size(0), x.size(1), std::max(needed, 2 * capacity), x.size(3)};
    const Tensor larger = zeros(shape, {x.dtype(), x.device()});
    if (at > 0) narrow(larger, 2, 0, at).copy_(narrow(whole, 2, 0, at));
    whole = larger;
  }
  narrow(whole, 2, at, x.size(2)).copy_(x);
}

}  // namespace

Tensor KeyValueCache::positions(int64_t tokens, Device device) const {
  const std::vector<int64_t> starts = starts_.empty() ? std::vector<int64_t>{0} : starts_;
  std::vector<int64_t> all;
  for (const int64_t start : starts)
    for (int64_t i = 0; i < tokens; ++i)
      all.push_back(std::max<int64_t>(length_ + i - start, 0));  // padding has any position
  return from_vector(all, {static_cast<int64_t>(starts.size()), tokens}).to(device);
}

// Query i is token length_ + i of its text.
Tensor KeyValueCache::mask_of(int64_t queries, int64_t keys, int64_t window, Device device) const {
  const auto texts = static_cast<int64_t>(std::max<size_t>(starts_.size(), 1));
  std::vector<uint8_t> seen(static_cast<size_t>(texts * queries * keys));
  for (int64_t text = 0, at = 0; text < texts; ++text) {
    const int64_t start = starts_.empty() ? 0 : starts_[static_cast<size_t>(text)];
    for (int64_t i = 0; i < queries; ++i)
      for (int64_t key = 0; key < keys; ++key, ++at) {
        const int64_t query = length_ + i;
        const bool near = window == 0 || query - key < window;
        seen[static_cast<size_t>(at)] = key >= start && key <= query && near;
      }
  }
  return not_equal(from_vector(seen, {texts, 1, queries, keys}), 0.0).to(device);
}

Tensor KeyValueCache::attend(int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v,
                             int64_t window) {
  const NoGradGuard no_grad;
  if (layers_.size() <= static_cast<size_t>(layer)) layers_.resize(static_cast<size_t>(layer) + 1);
  Layer& own = layers_[static_cast<size_t>(layer)];
  check(own.keys.defined() == (length_ > 0) && (length_ == 0 || own.keys.size(0) == k.size(0)),
        "key/value cache: the texts differ from those of earlier calls; want the same number");
  put(own.keys, k, length_);
  put(own.values, v, length_);
  const int64_t queries = q.size(2), all = length_ + queries;
  const int64_t first = queries == 1 && window > 0 ? std::max<int64_t>(all - window, 0) : 0;
  const Tensor keys = narrow(own.keys, 2, first, all - first);
  const Tensor values = narrow(own.values, 2, first, all - first);
  if (starts_.empty() && queries == 1) return attention(q, keys, values);
  if (starts_.empty() && length_ == 0)
    return attention(q, keys, values, {.causal = true, .window = window});
  const Tensor mask = mask_of(queries, all, window, q.device());
  return attention(q, keys, values, {.mask = narrow(mask, 3, first, all - first)});
}

CacheScope::CacheScope(KeyValueCache& cache) : before_(cache_now) { cache_now = &cache; }
CacheScope::~CacheScope() { cache_now = before_; }

Tensor last_token(const Tensor& features, KeyValueCache& cache) {
  const int64_t tokens = features.size(1);
  cache.advance(tokens);
  return narrow(features, 1, tokens - 1, 1);
}

KeyValueCache* current_cache() { return cache_now; }

}  // namespace booster
