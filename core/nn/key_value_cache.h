// Keys and values of the tokens that a language model has seen, so that each new token takes one
// pass over itself alone.
//
//   KeyValueCache cache;
//   const CacheScope scope(cache);         // for this thread's calls of models
//   Tensor logits = model(prompt);         // (n, 1, vocabulary): of the last token
//   logits = model(next_token);            // (n, 1)
//
// Models that know the cache: gpt2 and models::decoder. A cache is for one thread at a time.
#pragma once

#include "core/nn/functional.h"

#include <cstdint>
#include <vector>

namespace booster {

class KeyValueCache {
 public:
  KeyValueCache() = default;
  // Of texts of different lengths, padded on the left: text i begins at token starts[i]; empty: all
  // begin at 0. Layers get memory for `expected` tokens at once, and more when that is full.
  explicit KeyValueCache(std::vector<int64_t> starts, int64_t expected = 0)
      : starts_(std::move(starts)), expected_(expected) {}

  // Number of tokens from earlier calls of the model.
  int64_t length() const { return length_; }
  const std::vector<int64_t>& starts() const { return starts_; }
  // The tokens that the texts will have, as far as known.
  int64_t expected() const { return expected_; }

  // Returns the positions (n or 1, tokens) of the next `tokens` tokens, each within its own text.
  Tensor positions(int64_t tokens, Device device) const;

  // Appends the keys and values (n, heads, tokens, size) of a layer and returns attention of `q`
  // over all of the layer's. Layers count from 0. window: as in AttentionOptions, the same in each
  // call of a layer; keys that no later token sees are dropped.
  Tensor attend(int64_t layer, const Tensor& q, const Tensor& k, const Tensor& v, int64_t window);
  // Ends a call of the model with `tokens` tokens.
  void advance(int64_t tokens) { length_ += tokens; }
  // Bytes of all keys and values, room for later ones included.
  int64_t bytes() const;

 private:
  struct Layer {
    Tensor keys, values;  // (n, heads, room, size)
    int64_t first = 0;    // the token whose key lies at 0
  };
  void append(Layer& layer, const Tensor& k, const Tensor& v, int64_t window);
  Tensor attend_stored(const Layer& layer, const Tensor& q, int64_t window);
  Tensor starts_from(int64_t first) const;
  Tensor mask_of(int64_t queries, int64_t first, int64_t keys, int64_t window, Device device) const;

  std::vector<int64_t> starts_;
  std::vector<Layer> layers_;
  int64_t length_ = 0, expected_ = 0;
};

// Makes models on this thread use the cache while it lives.
class CacheScope {
 public:
  explicit CacheScope(KeyValueCache& cache);
  CacheScope(const CacheScope&) = delete;
  CacheScope& operator=(const CacheScope&) = delete;
  ~CacheScope();

 private:
  KeyValueCache* before_;
};

// Ends a call of the model: returns the features (n, 1, features) of each text's last token, which
// are all that its head needs.
Tensor last_token(const Tensor& features, KeyValueCache& cache);

// Returns this thread's cache; null outside of a CacheScope.
KeyValueCache* current_cache();

}  // namespace booster
