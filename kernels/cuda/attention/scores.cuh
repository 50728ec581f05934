// What attention's forward and backward kernels share: a warp goes through the keys (or queries) of
// one row, 32 at a time, one per lane.
#pragma once

#include "kernels/attention/log_2.h"
#include "kernels/numbers/convert.h"
#include "kernels/cuda/fold.cuh"
#include "kernels/cuda/runtime/refusals.h"
#include "kernels/numbers/math.h"
#include "kernels/numbers/random.h"

namespace booster::kernels::BOOSTER_VARIANT {

inline constexpr int warps_per_block = threads_per_block / warp_size;
// Whose numbers fit the block's memory.
template <class C>
inline constexpr int most_features = 1024 / static_cast<int>(sizeof(C));

__device__ inline int lane_index() { return static_cast<int>(threadIdx.x) % warp_size; }
__device__ inline int warp_index() { return static_cast<int>(threadIdx.x) / warp_size; }

// What all rows of a call share.
template <class C>
struct Scores {
  int64_t heads, queries, keys, features;
  View q, k, v, mask;
  C scale;
  bool causal, drops;
  uint32_t threshold;
  C kept;
  RandomPosition position;

  // The term added to a score, in units of log 2: the mask, or -infinity where the key is hidden.
  __device__ C term(int64_t batch, int64_t head, int64_t query, int64_t key) const {
    const C hidden = -C(__builtin_inf());
    if (causal && key > query) return hidden;
    if (!mask.data) return C(0);
    const int64_t place[4] = {batch, head, query, key};
    int64_t at = 0;  // sizes align from the right; 1, or a missing dimension, is broadcast
    for (int i = 0; i < mask.ndim; ++i)
      if (mask.shape[i] > 1) at += place[i + 4 - mask.ndim] * mask.strides[i];
    const C value = load_any<C>(mask.data, mask.dtype, at);
    if (mask.dtype != DType::boolean) return in_log_2(value);
    return value != C(0) ? C(0) : hidden;
  }
  // In units of log 2, from the product of a query and a key.
  __device__ C score(C product, C term) const { return product * (scale * C(log2_e)) + term; }
  // 0 for a probability that is dropped, else 1 / (1 - p). Each has its own random number.
  __device__ C keep(int64_t batch, int64_t head, int64_t query, int64_t key) const {
    if (!drops) return C(1);
    const int64_t number = ((batch * heads + head) * queries + query) * keys + key;
    return random_bits(position, number) >= threshold ? kept : C(0);
  }
};

template <class C>
Scores<C> scores_of(const View& q, const View& k, const View& v, const View& mask, double scale,
                    bool causal, double dropout, RandomPosition position) {
  return {q.shape[1],
          q.shape[2],
          k.shape[2],
          q.shape[3],
          q,
          k,
          v,
          mask,
          C(scale),
          causal,
          dropout > 0,
          drop_threshold(dropout),
          dropout < 1 ? C(1 / (1 - dropout)) : C(0),
          position};
}

template <class C>
__device__ C power_of_2(C x) {
  return exp_(x * C(ln_2));
}

// A token's row of a (batch, heads, tokens, features) tensor with dense features.
template <class C>
struct TokenRow {
  const View& x;
  int64_t first;
  __device__ TokenRow(const View& x, int64_t batch, int64_t head, int64_t token)
      : x(x), first(batch * x.strides[0] + head * x.strides[1] + token * x.strides[2]) {}
  __device__ C operator[](int64_t feature) const {
    return load_any<C>(x.data, x.dtype, first + feature);
  }
  __device__ C dot(const C* other, int64_t features) const {
    C sum = 0;
    for (int64_t f = 0; f < features; ++f) sum += (*this)[f] * other[f];
    return sum;
  }
};

// Calls body(feature) for the features of the calling lane.
template <class Body>
__device__ void for_each_feature(int64_t features, Body&& body) {
  for (int64_t f = lane_index(); f < features; f += warp_size) body(f);
}

template <class C>
__device__ void store_token(const View& y, int64_t batch, int64_t head, int64_t token,
                            int64_t feature, C value) {
  store_any<C>(y.data, y.dtype,
               batch * y.strides[0] + head * y.strides[1] + token * y.strides[2] + feature, value);
}

// Calls body(batch, head, token) for every row of (batch, heads, tokens), a warp each. Rows beyond
// the last are left out by whole warps.
template <class Body>
void for_each_token(int64_t batches, int64_t heads, int64_t tokens, Body body) {
  const int64_t rows = batches * heads * tokens;
  for_each_block((rows + warps_per_block - 1) / warps_per_block, [=] ON_DEVICE(int64_t block) {
    const int64_t row = block * warps_per_block + warp_index();
    if (row < rows) body(row / tokens / heads, row / tokens % heads, row % tokens);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
