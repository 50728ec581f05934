// Gradients of attention on a GPU, for every dtype, size and mask, by the formulae of
// kernels/attention/backward.cpp: products of matrices, and a kernel between them. The kernel
// converts each row of scores to probabilities, and each row of the probabilities' gradients to the
// scores' slopes, in place. `out` and log_sum may cover more keys than the call (ring attention).
#include "kernels/catalogue.h"
#include "kernels/cuda/attention/head_tokens.cuh"
#include "kernels/cuda/attention/score_rows.cuh"
#include "kernels/cuda/attention/tile_attention.h"
#include "kernels/cuda/catalogue.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

// Products of queries and keys, and of g and values; later probabilities after dropout, and slopes.
template <class C>
struct Pairs {
  C *scores, *gradients;
};

// The forward pass's result, and its gradient.
struct Results {
  View out, g;
};

// A thread's part of a chunk of a row.
template <class Shape, class C>
struct PairShare {
  C p[Shape::quads][quad], dp[Shape::quads][quad];
  uint32_t kept;  // a bit for each

  __device__ C keep(const Scores<C>& x, int q, int i) const {
    return kept >> (q * quad + i) & 1 ? x.kept : C(0);
  }
};

template <class Shape, class C>
__device__ void load_chunk(PairShare<Shape, C>& mine, const Pairs<C>& pairs, const Scores<C>& x,
                           const ScoreRow<C>& row, int64_t chunk) {
  load_scores<Shape>(mine.p, pairs.scores, x, row, chunk);
  const C largest = row.load_log_sum(x.log_sum, 0), log = row.load_log_sum(x.log_sum, 1);
  mine.kept = 0;
#pragma unroll
  for (int q = 0; q < Shape::quads; ++q) {
    const ElementGroup group = Shape::group(chunk, q, row.visible);
#pragma unroll
    for (int i = 0; i < quad; ++i) mine.dp[q][i] = 0;
    read_group(mine.dp[q], pairs.gradients + row.begin, group);
    if (group.count > 0) mine.kept |= kept_of_quad(x, row, group.first) << q * quad;
      // Subtracts in two steps: added to a score of -1e9, the sum's logarithm would vanish.
#pragma unroll
    for (int i = 0; i < quad; ++i) mine.p[q][i] = power_of_2(mine.p[q][i] - largest - log);
  }
}

// Returns a query's sum of g out, which all its slopes need.
template <class Team, class C>
__device__ C product_with_result(const Results& x, const ScoreRow<C>& row) {
  const auto first = [&](const View& view) {
    return row.batch * view.strides[0] + row.head * view.strides[1] + row.query * view.strides[2];
  };
  const int64_t first_g = first(x.g), first_out = first(x.out);
  C sum = 0;
  for (int64_t f = Team::rank(); f < x.g.shape[3]; f += Team::size)
    sum += load_any<C>(x.g.data, x.g.dtype, first_g + f * x.g.strides[3]) *
           load_any<C>(x.out.data, x.out.dtype, first_out + f * x.out.strides[3]);
  return team_sum<Team>(sum);
}

// Keys that causality hides have slopes of 0 even if the sum is nan.
template <class Shape, class C>
__device__ void store_chunk(const PairShare<Shape, C>& mine, const Pairs<C>& pairs,
                            const Scores<C>& x, const ScoreRow<C>& row, int64_t chunk, int64_t keys,
                            C delta) {
#pragma unroll
  for (int q = 0; q < Shape::quads; ++q) {
    const int visible = Shape::group(chunk, q, row.visible).count;
    C weight[quad], slope[quad];
#pragma unroll
    for (int i = 0; i < quad; ++i) {
      const C p = mine.p[q][i], keep = mine.keep(x, q, i);
      weight[i] = i < visible ? p * keep : C(0);
      slope[i] = i < visible ? p * (mine.dp[q][i] * keep - delta) * x.scale : C(0);
    }
    const ElementGroup group = Shape::group(chunk, q, keys);
    write_group(pairs.scores + row.begin, group, weight);
    write_group(pairs.gradients + row.begin, group, slope);
  }
}

template <class Shape, class C>
__device__ void finish_row(const Pairs<C>& pairs, const Scores<C>& x, const Results& results,
                           ScoreRow<C> row, int64_t keys) {
  const C delta = product_with_result<typename Shape::Team>(results, row);
  if (row.load_log_sum(x.log_sum, 0) == -C(__builtin_inf())) row.visible = 0;
  for (int64_t chunk = 0; chunk < Shape::chunks(keys); ++chunk) {
    PairShare<Shape, C> mine;
    load_chunk(mine, pairs, x, row, chunk);
    store_chunk(mine, pairs, x, row, chunk, keys, delta);
  }
}

template <class Shape, class C>
void finish_rows(const Pairs<C>& pairs, const Scores<C>& x, const Results& results, HeadRange heads,
                 QueryRange queries) {
  for_each_row<typename Shape::Team>(heads.count * queries.count, [=] ON_DEVICE(int64_t index) {
    finish_row<Shape>(pairs, x, results, ScoreRow<C>(x, heads, queries, index), queries.keys);
  });
}

template <class C>
struct Operands {
  Operands(const AttentionTensors& x, const HeadChunks& chunks)
      : q(x.q, chunks),
        k(x.k, chunks),
        v(x.v, chunks),
        g(x.g, chunks),
        dq(x.dq, chunks),
        dk(x.dk, chunks),
        dv(x.dv, chunks),
        results{x.out, x.g} {}
  HeadTokens<C> q, k, v, g, dq, dk, dv;
  Results results;
};

template <class C>
void add_queries(const Operands<C>& x, const Pairs<C>& pairs, const Scores<C>& scores,
                 HeadRange heads, QueryRange queries) {
  const View q = x.q.queries(heads, queries), g = x.g.queries(heads, queries);
  const View weights = score_matrices(pairs.scores, heads, queries);
  const View slopes = score_matrices(pairs.gradients, heads, queries);
  matmul(weights, q, transposed(x.k.keys(heads, queries)), 0);
  matmul(slopes, g, transposed(x.v.keys(heads, queries)), 0);
  visit_row_shapes<C>(queries.keys, [&](auto shape) {
    finish_rows<decltype(shape)>(pairs, scores, x.results, heads, queries);
  });
  const double there = queries.begins_sums ? 0 : 1;
  matmul(x.dv.keys(heads, queries), transposed(weights), g, there);
  matmul(x.dk.keys(heads, queries), transposed(slopes), q, there);
  matmul(x.dq.queries(heads, queries), slopes, x.k.keys(heads, queries), 0);
}

template <class C>
void backward(const AttentionTensors& tensors, const Scores<C>& scores) {
  const HeadChunks chunks(tensors.q, tensors.k, sizeof(C));
  const Operands<C> x(tensors, chunks);
  const Workspace<C> products(chunks.most_scores()), gradients(chunks.most_scores());
  chunks.for_each_chunk([&](HeadRange heads) {
    fill_copies(TokenCopies<C>({&x.q, &x.k, &x.v, &x.g}, heads, chunks));
    chunks.for_each_query_range(scores.causal, [&](QueryRange queries) {
      add_queries(x, Pairs<C>{products.data(), gradients.data()}, scores, heads, queries);
    });
    write_back(TokenCopies<C>({&x.dq, &x.dk, &x.dv}, heads, chunks));
  });
}

}  // namespace

void attention_backward(View dq, View dk, View dv, View g, View q, View k, View v, View out,
                        View log_sum, View mask, double scale, VisibleKeys visible, double dropout,
                        RandomPosition position) {
  const AttentionTensors tensors = {q, k, v, out, log_sum, mask, g, dq, dk, dv};
  if (fits_tiles(tensors))
    return tile_attention_backward(tensors, scale, visible.causal, dropout, position);
  visit_compute(q.dtype, [&]<class C>(C*) {
    backward(tensors, Scores<C>(tensors, scale, visible.causal, dropout, position));
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
