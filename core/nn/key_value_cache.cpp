#include "core/nn/key_value_cache.h"

#include "core/autograd/op_policy.h"
#include "core/tensor/tensor.h"
#include "kernels/catalogue.h"

#include <algorithm>
#include <cmath>

namespace booster {
namespace {

thread_local KeyValueCache* cache_now = nullptr;

// A layer with a window keeps up to this many windows of keys, so that old ones are dropped by a
// copy once in a window.
constexpr int64_t windows_kept = 2;
// Calls with more tokens, such as prompts, are computed by the kernel for many queries.
constexpr int64_t few_queries = 8;

// Returns memory for `room` tokens with the first `kept` of `whole` from token `from` on.
Tensor moved(const Tensor& whole, const Tensor& like, int64_t room, int64_t from, int64_t kept) {
  const Tensor larger =
      empty({like.size(0), like.size(1), room, like.size(3)}, {like.dtype(), like.device()});
  if (kept > 0) narrow(larger, 2, 0, kept).copy_(narrow(whole, 2, from, kept));
  return larger;
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

// Query i is token length_ + i of its text, key j token first + j.
Tensor KeyValueCache::mask_of(int64_t queries, int64_t first, int64_t keys, int64_t window,
                              Device device) const {
  const auto texts = static_cast<int64_t>(std::max<size_t>(starts_.size(), 1));
  std::vector<uint8_t> seen(static_cast<size_t>(texts * queries * keys));
  for (int64_t text = 0, at = 0; text < texts; ++text) {
    const int64_t start = starts_.empty() ? 0 : starts_[static_cast<size_t>(text)];
    for (int64_t i = 0; i < queries; ++i)
      for (int64_t key = first; key < first + keys; ++key, ++at) {
        const int64_t query = length_ + i;
        const bool near = window == 0 || query - key < window;
        seen[static_cast<size_t>(at)] = key >= start && key <= query && near;
      }
  }
  return not_equal(from_vector(seen, {texts, 1, queries, keys}), 0.0).to(device);
}

// Where the texts begin among the keys from token `first` on; undefined if at the first one.
Tensor KeyValueCache::starts_from(int64_t first) const {
  if (starts_.empty()) return {};
  std::vector<int64_t> starts;
  for (const int64_t start : starts_) starts.push_back(std::max<int64_t>(start - first, 0));
  return from_vector(starts, {static_cast<int64_t>(starts.size())});
}

void KeyValueCache::append(Layer& layer, const Tensor& k, const Tensor& v, int64_t window) {
  const int64_t all = length_ + k.size(2), room = layer.keys.defined() ? layer.keys.size(2) : 0;
  if (all - layer.first > room) {
    // The first of the new tokens sees window - 1 earlier ones.
    const int64_t first = window > 0 ? std::max(layer.first, length_ + 1 - window) : layer.first;
    const int64_t needed = all - first;
    int64_t wanted = std::max({needed, expected_, needed > room ? 2 * room : room});
    if (window > 0) wanted = std::max(needed, std::min(wanted, windows_kept * window));
    const int64_t kept = std::max<int64_t>(length_ - first, 0);
    layer.keys = moved(layer.keys, k, wanted, first - layer.first, kept);
    layer.values = moved(layer.values, v, wanted, first - layer.first, kept);
    layer.first = first;
  }
  const int64_t at = length_ - layer.first;
  narrow(layer.keys, 2, at, k.size(2)).copy_(k);
  narrow(layer.values, 2, at, v.size(2)).copy_(v);
}

Tensor KeyValueCache::attend_stored(const Layer& layer, const Tensor& q, int64_t window) {
  const int64_t queries = q.size(2), all = length_ + queries;
  // Keys before this one are no query's.
  const int64_t first = window > 0 ? std::max(layer.first, length_ + 1 - window) : layer.first;
  const Tensor keys = narrow(layer.keys, 2, first - layer.first, all - first);
  const Tensor values = narrow(layer.values, 2, first - layer.first, all - first);
  if (q.device().type == DeviceType::cpu && q.dtype() != DType::f64 && queries <= few_queries) {
    // stored as (n, tokens, heads, size), as the layer that follows reads it
    const Tensor out =
        transpose(empty({q.size(0), queries, q.size(1), q.size(3)}, {q.dtype(), q.device()}), 1, 2);
    kernels::on(q.device())
        .attention_few_queries(out.view(), q.view(), keys.view(), values.view(),
                               starts_from(first).view(),
                               1 / std::sqrt(static_cast<double>(q.size(3))), window);
    return out;
  }
  if (starts_.empty() && queries == 1) return attention(q, keys, values);
  const Tensor mask = mask_of(queries, first, all - first, window, q.device());
  return attention(q, keys, values, {.mask = mask});
}

Tensor KeyValueCache::attend(int64_t layer, const Tensor& queries, const Tensor& new_keys,
                             const Tensor& new_values, int64_t window) {
  const NoGradGuard no_grad;
  Tensor q = queries, k = new_keys, v = new_values;
  apply_policy(Op::attention, {&q, &k, &v});
  if (layers_.size() <= static_cast<size_t>(layer)) layers_.resize(static_cast<size_t>(layer) + 1);
  Layer& own = layers_[static_cast<size_t>(layer)];
  check(own.keys.defined() == (length_ > 0) && (length_ == 0 || own.keys.size(0) == k.size(0)),
        "key/value cache: the texts differ from those of earlier calls; want the same number");
  check(starts_.empty() || static_cast<int64_t>(starts_.size()) == k.size(0),
        "key/value cache: number of texts; got {}, want {}", k.size(0), starts_.size());
  append(own, k, v, window);
  if (length_ == 0 && starts_.empty() && q.size(2) > 1)
    return attention(q, k, v, {.causal = true, .window = window});
  return attend_stored(own, q, window);
}

int64_t KeyValueCache::bytes() const {
  int64_t sum = 0;
  for (const Layer& layer : layers_)
    if (layer.keys.defined()) sum += layer.keys.bytes() + layer.values.bytes();
  return sum;
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
