// Gradients of attention on a GPU, by the formulae of kernels/attention/backward.cpp. A warp
// computes the gradient of one query, or of one key and its value, by itself: no sum depends on who
// comes first.
#include "kernels/catalogue.h"
#include "kernels/cuda/attention/scores.cuh"
#include "kernels/cuda/attention/tile_attention.h"
#include "kernels/workspace.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

// What is given to the backward pass, beside the scores.
template <class C>
struct Given {
  Scores<C> s;
  View g, out, log_sum;
  C* deltas;  // sum(g out) of each query

  __device__ int64_t row_of(int64_t batch, int64_t head, int64_t query) const {
    return (batch * s.heads + head) * s.queries + query;
  }
  // The first or second of log_sum's numbers.
  __device__ C log_sum_of(int64_t batch, int64_t head, int64_t query, int part) const {
    return load_any<C>(log_sum.data, log_sum.dtype,
                       batch * log_sum.strides[0] + head * log_sum.strides[1] +
                           query * log_sum.strides[2] + part * log_sum.strides[3]);
  }
};

// Of one query and key: the probability after dropout, and the slope of the score.
template <class C>
struct Pair {
  C weight, slope;
};

// From the products q k and g v of their rows.
template <class C>
__device__ Pair<C> pair_of(const Given<C>& x, int64_t batch, int64_t head, int64_t query,
                           int64_t key, C qk, C gv) {
  const C hidden = -C(__builtin_inf());
  const C term = x.s.term(batch, head, query, key);
  const C largest = x.log_sum_of(batch, head, query, 0);
  if (term == hidden || largest == hidden) return {C(0), C(0)};
  // One after the other: beside a score of -1e9 the sum's logarithm would be lost.
  const C p = power_of_2(x.s.score(qk, term) - largest - x.log_sum_of(batch, head, query, 1));
  const C keep = x.s.keep(batch, head, query, key);
  return {p * keep, p * (gv * keep - x.deltas[x.row_of(batch, head, query)])};
}

// A warp's part of the block's memory: the rows of its token, their gradients, and the numbers of
// 32 pairs.
template <class C>
struct Rows {
  C *first, *second, *first_sum, *second_sum, *weight, *slope;
};

template <class C>
__device__ void add_up(C* sums, int64_t features, const C* factors, int count, const View& x,
                       int64_t batch, int64_t head, int64_t token) {
  for_each_feature(features, [&](int64_t f) {
    C sum = sums[f];
    for (int t = 0; t < count; ++t) sum += factors[t] * TokenRow<C>(x, batch, head, token + t)[f];
    sums[f] = sum;
  });
}

template <class C>
__device__ void load_rows(Rows<C> mine, int64_t features, TokenRow<C> first, TokenRow<C> second) {
  for_each_feature(features, [&](int64_t f) {
    mine.first[f] = first[f];
    mine.second[f] = second[f];
    mine.first_sum[f] = mine.second_sum[f] = 0;
  });
  __syncwarp();
}

template <class C>
__device__ void query_gradient(const Given<C>& x, Rows<C> mine, const View& dq, int64_t batch,
                               int64_t head, int64_t query) {
  const Scores<C>& s = x.s;
  load_rows(mine, s.features, TokenRow<C>(s.q, batch, head, query),
            TokenRow<C>(x.g, batch, head, query));
  const int64_t visible = s.causal && query + 1 < s.keys ? query + 1 : s.keys;
  for (int64_t first = 0; first < visible; first += warp_size) {
    const int64_t key = first + lane_index();
    Pair<C> pair = {C(0), C(0)};
    if (key < visible)
      pair = pair_of(x, batch, head, query, key,
                     TokenRow<C>(s.k, batch, head, key).dot(mine.first, s.features),
                     TokenRow<C>(s.v, batch, head, key).dot(mine.second, s.features));
    mine.slope[lane_index()] = pair.slope;
    __syncwarp();
    const int count = static_cast<int>(visible - first < warp_size ? visible - first : warp_size);
    add_up(mine.first_sum, s.features, mine.slope, count, s.k, batch, head, first);
    __syncwarp();
  }
  for_each_feature(s.features, [&](int64_t f) {
    store_token(dq, batch, head, query, f, mine.first_sum[f] * s.scale);
  });
}

template <class C>
__device__ void key_gradient(const Given<C>& x, Rows<C> mine, const View& dk, const View& dv,
                             int64_t batch, int64_t head, int64_t key) {
  const Scores<C>& s = x.s;
  load_rows(mine, s.features, TokenRow<C>(s.k, batch, head, key),
            TokenRow<C>(s.v, batch, head, key));
  for (int64_t first = s.causal ? key : 0; first < s.queries; first += warp_size) {
    const int64_t query = first + lane_index();
    Pair<C> pair = {C(0), C(0)};
    if (query < s.queries)
      pair = pair_of(x, batch, head, query, key,
                     TokenRow<C>(s.q, batch, head, query).dot(mine.first, s.features),
                     TokenRow<C>(x.g, batch, head, query).dot(mine.second, s.features));
    mine.weight[lane_index()] = pair.weight;
    mine.slope[lane_index()] = pair.slope;
    __syncwarp();
    const int count =
        static_cast<int>(s.queries - first < warp_size ? s.queries - first : warp_size);
    add_up(mine.first_sum, s.features, mine.slope, count, s.q, batch, head, first);
    add_up(mine.second_sum, s.features, mine.weight, count, x.g, batch, head, first);
    __syncwarp();
  }
  for_each_feature(s.features, [&](int64_t f) {
    store_token(dk, batch, head, key, f, mine.first_sum[f] * s.scale);
    store_token(dv, batch, head, key, f, mine.second_sum[f]);
  });
}

// Calls body(rows, batch, head, token) for every token, a warp each.
template <class C, class Body>
void for_each_token_in_memory(const View& x, Body body) {
  constexpr int most = most_features<C>;
  for_each_token(x.shape[0], x.shape[1], x.shape[2],
                 [=] ON_DEVICE(int64_t batch, int64_t head, int64_t token) {
                   SHARED(C, rows, warps_per_block * 4 * most);
                   SHARED(C, pairs, 2 * threads_per_block);
                   C* mine = rows + warp_index() * 4 * most;
                   C* numbers = pairs + warp_index() * 2 * warp_size;
                   body(Rows<C>{mine, mine + most, mine + 2 * most, mine + 3 * most, numbers,
                                numbers + warp_size},
                        batch, head, token);
                 });
}

template <class C>
void compute_deltas(const Given<C>& x) {
  for_each_token(x.s.q.shape[0], x.s.heads, x.s.queries,
                 [=] ON_DEVICE(int64_t batch, int64_t head, int64_t query) {
                   const TokenRow<C> g(x.g, batch, head, query), out(x.out, batch, head, query);
                   C mine = 0;
                   for_each_feature(x.s.features, [&](int64_t f) { mine += g[f] * out[f]; });
                   const C sum = fold_warp(mine, [](C a, C b) { return a + b; });
                   if (lane_index() == 0) x.deltas[x.row_of(batch, head, query)] = sum;
                 });
}

template <class C>
void backward(const Given<C>& x, const View& dq, const View& dk, const View& dv) {
  check_head_size(x.s.features, most_features<C>);
  compute_deltas(x);
  for_each_token_in_memory<C>(
      x.s.q, [=] ON_DEVICE(Rows<C> mine, int64_t batch, int64_t head, int64_t query) {
        query_gradient(x, mine, dq, batch, head, query);
      });
  for_each_token_in_memory<C>(
      x.s.k, [=] ON_DEVICE(Rows<C> mine, int64_t batch, int64_t head, int64_t key) {
        key_gradient(x, mine, dk, dv, batch, head, key);
      });
}

}  // namespace

void attention_backward(View dq, View dk, View dv, View g, View q, View k, View v, View out,
                        View log_sum, View mask, double scale, bool causal, double dropout,
                        RandomPosition position) {
  const AttentionTensors tensors = {q, k, v, out, log_sum, mask, g, dq, dk, dv};
  if (fits_tiles(tensors))
    return tile_attention_backward(tensors, scale, causal, dropout, position);
  visit_compute(q.dtype, [&](auto* compute) {
    using C = __typeof__(*compute + 0);
    const Workspace<C> deltas(q.shape[0] * q.shape[1] * q.shape[2] + 1);
    const auto scores = scores_of<C>(q, k, v, mask, scale, causal, dropout, position);
    backward(Given<C>{scores, g, out, log_sum, deltas.data()}, dq, dk, dv);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
