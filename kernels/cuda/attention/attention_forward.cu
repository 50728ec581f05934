// Attention on a GPU, for every dtype, size and mask: a warp computes one query, with the
// probabilities relative to the best score so far (Dao et al., "FlashAttention", 2022).
#include "kernels/catalogue.h"
#include "kernels/cuda/attention/scores.cuh"
#include "kernels/cuda/attention/tile_attention.h"

namespace booster::kernels::BOOSTER_VARIANT {

namespace {

// A warp's part of the block's memory.
template <class C>
struct Rows {
  C *query, *sum, *weight;
};

// A query's best score and its probabilities' sum, so far.
template <class C>
struct Running {
  C best = -C(__builtin_inf()), total = 0;
};

// The weight of each lane's key relative to the best score so far; returns the factor by which
// earlier sums shrink.
template <class C>
__device__ C add_scores(Running<C>& running, C score, C& weight) {
  const C most = fold_warp(score, [](C a, C b) { return b > a || b != b ? b : a; });
  const C before = running.best;
  if (most > before || most != most) running.best = most;
  const C base = running.best == -C(__builtin_inf()) ? C(0) : running.best;
  weight = power_of_2(score - base);
  const C shrink = power_of_2(before - base);
  running.total = running.total * shrink + fold_warp(weight, [](C a, C b) { return a + b; });
  return shrink;
}

template <class C>
__device__ void attend(const Scores<C>& s, Rows<C> mine, const View& out, const View& log_sum,
                       int64_t batch, int64_t head, int64_t query) {
  const TokenRow<C> row(s.q, batch, head, query);
  for_each_feature(s.features, [&](int64_t f) {
    mine.query[f] = row[f];
    mine.sum[f] = 0;
  });
  __syncwarp();
  Running<C> running;
  const int64_t visible = s.causal && query + 1 < s.keys ? query + 1 : s.keys;
  for (int64_t first = 0; first < visible; first += warp_size) {
    const int64_t key = first + lane_index();
    C score = -C(__builtin_inf()), weight;
    if (key < visible)
      score = s.score(TokenRow<C>(s.k, batch, head, key).dot(mine.query, s.features),
                      s.term(batch, head, query, key));
    const C shrink = add_scores(running, score, weight);
    mine.weight[lane_index()] = key < visible ? weight * s.keep(batch, head, query, key) : C(0);
    __syncwarp();
    const int count = static_cast<int>(visible - first < warp_size ? visible - first : warp_size);
    for_each_feature(s.features, [&](int64_t f) {
      C sum = mine.sum[f] * shrink;
      for (int t = 0; t < count; ++t)
        sum += mine.weight[t] * TokenRow<C>(s.v, batch, head, first + t)[f];
      mine.sum[f] = sum;
    });
    __syncwarp();
  }
  const C inverse = running.total == C(0) ? C(0) : C(1) / running.total;
  for_each_feature(s.features, [&](int64_t f) {
    store_token(out, batch, head, query, f, mine.sum[f] * inverse);
  });
  if (lane_index() != 0) return;
  const int64_t element =
      batch * log_sum.strides[0] + head * log_sum.strides[1] + query * log_sum.strides[2];
  store_any<C>(log_sum.data, log_sum.dtype, element, running.best);
  store_any<C>(log_sum.data, log_sum.dtype, element + log_sum.strides[3],
               log_(running.total) * C(log2_e));
}

template <class C>
void forward(const Scores<C>& s, const View& out, const View& log_sum) {
  constexpr int most = most_features<C>;
  check_head_size(s.features, most);
  for_each_token(
      s.q.shape[0], s.heads, s.queries, [=] ON_DEVICE(int64_t batch, int64_t head, int64_t query) {
        SHARED(C, queries, warps_per_block * most);
        SHARED(C, sums, warps_per_block * most);
        SHARED(C, weights, threads_per_block);
        const int warp = warp_index();
        attend(s, {queries + warp * most, sums + warp * most, weights + warp * warp_size}, out,
               log_sum, batch, head, query);
      });
}

}  // namespace

void attention(View out, View log_sum, View q, View k, View v, View mask, double scale, bool causal,
               double dropout, RandomPosition position) {
  const AttentionTensors tensors = {q, k, v, out, log_sum, mask};
  if (fits_tiles(tensors)) return tile_attention(tensors, scale, causal, dropout, position);
  visit_compute(q.dtype, [&](auto* compute) {
    using C = __typeof__(*compute + 0);
    forward(scores_of<C>(q, k, v, mask, scale, causal, dropout, position), out, log_sum);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
