// Attention on a GPU, for every dtype, size and mask: a product of queries and keys, a kernel that
// converts each row of scores to probabilities in place, and a product with the values.
#include "kernels/catalogue.h"
#include "kernels/cuda/attention/head_tokens.cuh"
#include "kernels/cuda/attention/score_rows.cuh"
#include "kernels/cuda/attention/tile_attention.h"
#include "kernels/cuda/catalogue.h"

namespace booster::kernels::BOOSTER_VARIANT {

namespace {

// A row's largest score (nan if it has one), and the sum of its probabilities relative to it.
template <class C>
struct Total {
  C largest = -C(__builtin_inf()), sum = 0;
  __device__ C base() const { return largest == -C(__builtin_inf()) ? C(0) : largest; }
};

// Overwrites scores with weights relative to `base`.
template <class Shape, class C>
__device__ void make_weights(C (&score)[Shape::quads][quad], C base) {
#pragma unroll
  for (int q = 0; q < Shape::quads; ++q)
#pragma unroll
    for (int i = 0; i < quad; ++i) score[q][i] = power_of_2(score[q][i] - base);
}

// Adds a chunk, and leaves weights relative to the largest score so far. The sum covers only this
// thread's scores.
template <class Shape, class C>
__device__ void add_chunk(Total<C>& total, C (&score)[Shape::quads][quad]) {
  const auto larger = [](C a, C b) { return b > a || b != b ? b : a; };
  const C before = total.largest;
#pragma unroll
  for (int q = 0; q < Shape::quads; ++q)
#pragma unroll
    for (int i = 0; i < quad; ++i) total.largest = larger(total.largest, score[q][i]);
  total.largest = Shape::Team::fold(total.largest, larger);
  make_weights<Shape>(score, total.base());
  total.sum *= power_of_2(before - total.base());
#pragma unroll
  for (int q = 0; q < Shape::quads; ++q)
#pragma unroll
    for (int i = 0; i < quad; ++i) total.sum += score[q][i];
}

template <class Shape, class C>
__device__ void store_weights(C* row_begin, const C (&weight)[Shape::quads][quad], C factor,
                              const Scores<C>& x, const ScoreRow<C>& row, int64_t chunk,
                              int64_t keys) {
#pragma unroll
  for (int q = 0; q < Shape::quads; ++q) {
    const ElementGroup group = Shape::group(chunk, q, keys);
    if (group.count == 0) continue;
    const uint32_t kept = kept_of_quad(x, row, group.first);
    C number[quad];
#pragma unroll
    for (int i = 0; i < quad; ++i)
      number[i] = weight[q][i] * (kept >> i & 1 ? factor * x.kept : C(0));
    write_group(row_begin, group, number);
  }
}

// Overwrites a row's products with probabilities after dropout, and writes log_sum.
template <class Shape, class C>
__device__ void weigh_row(C* products, const Scores<C>& x, const ScoreRow<C>& row, int64_t keys) {
  const int64_t chunks = Shape::chunks(keys);
  C weight[Shape::quads][quad];
  Total<C> total;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    load_scores<Shape>(weight, products, x, row, chunk);
    add_chunk<Shape>(total, weight);
  }
  total.sum = team_sum<typename Shape::Team>(total.sum);
  const C factor = total.sum == C(0) ? C(0) : C(1) / total.sum;
  for (int64_t chunk = 0; chunk < chunks; ++chunk) {
    if (chunks > 1) {
      load_scores<Shape>(weight, products, x, row, chunk);
      make_weights<Shape>(weight, total.base());
    }
    store_weights<Shape>(products + row.begin, weight, factor, x, row, chunk, keys);
  }
  if (Shape::Team::rank() != 0) return;
  row.store_log_sum(x.log_sum, 0, total.largest);
  row.store_log_sum(x.log_sum, 1, log_(total.sum) * C(log2_e));
}

template <class Shape, class C>
void weigh_rows(C* products, const Scores<C>& x, HeadRange heads, QueryRange queries) {
  for_each_row<typename Shape::Team>(heads.count * queries.count, [=] ON_DEVICE(int64_t index) {
    weigh_row<Shape>(products, x, ScoreRow<C>(x, heads, queries, index), queries.keys);
  });
}

template <class C>
void forward(const AttentionTensors& x, const Scores<C>& scores) {
  const HeadChunks chunks(x.q, x.k, sizeof(C));
  const HeadTokens<C> q(x.q, chunks), k(x.k, chunks), v(x.v, chunks), out(x.out, chunks);
  const Workspace<C> products(chunks.most_scores());
  chunks.for_each_chunk([&](HeadRange heads) {
    fill_copies(TokenCopies<C>({&q, &k, &v}, heads, chunks));
    chunks.for_each_query_range(scores.causal, [&](QueryRange queries) {
      const View weights = score_matrices(products.data(), heads, queries);
      matmul(weights, q.queries(heads, queries), transposed(k.keys(heads, queries)), 0);
      visit_row_shapes<C>(queries.keys, [&](auto shape) {
        weigh_rows<decltype(shape)>(products.data(), scores, heads, queries);
      });
      matmul(out.queries(heads, queries), weights, v.keys(heads, queries), 0);
    });
    write_back(TokenCopies<C>({&out}, heads, chunks));
  });
}

}  // namespace

void attention(View out, View log_sum, View q, View k, View v, View mask, double scale,
               VisibleKeys visible, double dropout, RandomPosition position) {
  const AttentionTensors tensors = {q, k, v, out, log_sum, mask};
  if (fits_tiles(tensors)) return tile_attention(tensors, scale, visible.causal, dropout, position);
  visit_compute(q.dtype, [&]<class C>(C*) {
    forward(tensors, Scores<C>(tensors, scale, visible.causal, dropout, position));
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
