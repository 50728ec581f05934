// Attention: out = softmax(scale q k^T + mask) v (Vaswani et al., "Attention is all you need",
// 2017).
//
// One thread computes each head from packed copies of its operands, in blocks of queries and keys
// that stay in cache; scores never reach memory. A query whose keys are all masked gives zeros (and
// log_sum = -infinity), where PyTorch gives nan.
//
// ViT-B/16 batch 8, one layer, CPU time of one Zen 4 core, forward + backward, with PyTorch 2.15 on
// the same core in brackets: bf16 6.7 + 14.4 ms (17.5 + 50.1), f32 11.8 + 27.2 ms (15.6 + 34.1).
// At the processor's peak the products alone would take 15.7 and 31.4 ms in total
// (benchmarks/attention.cpp).
#include "kernels/attention/block.h"
#include "kernels/catalogue.h"
#include "kernels/numbers/math.h"
#include "kernels/walks/rows.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

using namespace tile;

constexpr int64_t most_queries = 32;  // their scores fit the first-level cache
template <class F>
constexpr int64_t most_keys = by_tiles<F> ? 256 : keys_per_block;
constexpr int score_rows = many_registers ? 8 : 4;

// Computes scores (queries, width) = factor * queries keys^T + bias.
template <class F, int columns>
KERNEL_FN void score_tile(typename F::Number* scores, int64_t width, Left<F> left,
                          const typename F::Unit* panel, int64_t steps, typename F::Number factor,
                          const typename F::Number* bias, int64_t bias_stride) {
  using Number = typename F::Number;
  Vector<Number> sum[score_rows][columns];
  clear<Number>(sum);
  multiply_add<F>(sum, left, panel, panel_width<F>, steps);
  FOR_TILE (r, score_rows)
    FOR_TILE (c, columns)
      vector_at(scores + r * width + c * lanes<Number>) =
          sum[r][c] * factor + vector_at(bias + r * bias_stride + c * lanes<Number>);
}

template <class F>
struct Forward {
  using Number = typename F::Number;
  using Unit = typename F::Unit;
  static constexpr int n = lanes<Number>;

  const Problem& problem;
  Sizes<F> sizes;
  Packed<F> query, key, value;
  Unit *spare, *weights;
  Number *scores, *bias, *keep, *sums, *best, *total;
  int64_t bias_stride = 0;
  Prefetch prefetch;

  Forward(Layout layout, int64_t* bytes, const Problem& problem, const View& q, const View& k)
      : problem(problem), sizes(q, k, most_queries, most_keys<F>) {
    const int64_t block = (sizes.query_block + slack) * sizes.key_block;
    query.rows = layout.take<Unit>(sizes.row_units(sizes.query_block));
    key.panels = layout.take<Unit>(sizes.panel_units(sizes.keys));
    value.columns = layout.take<Unit>(sizes.column_units(sizes.keys));
    spare = layout.take<Unit>(sizes.row_units(1));
    scores = layout.take<Number>(block);
    weights = layout.take<Unit>(block);
    bias = layout.take<Number>(problem.may_differ() ? block : sizes.key_block);
    keep = layout.take<Number>(problem.dropout > 0 ? block : 0);
    sums = layout.take<Number>((sizes.query_block + slack) * sizes.row.features);
    best = layout.take<Number>(sizes.query_block);
    total = layout.take<Number>(sizes.query_block);
    *bytes = layout.used();
  }

  void multiply_scores(const Block& block, int64_t width, Number factor) {
    if constexpr (by_tiles<F>)
      return add_tiles(true, {scores, width, tile_side}, {query.rows, sizes.row.units},
                       {key.panels + block.key * sizes.row.units, tile_side,
                        tile_side * sizes.row.units},
                       round_up(block.queries, tile_side), width, sizes.row.units);
    for (int64_t column = 0; column < width; column += panel_width<F>)
      with_vectors<panel_vectors>((width - column) / n, [&](auto columns) {
        for (int64_t row = 0; row < block.queries; row += score_rows)
          score_tile<F, columns.value>(scores + row * width + column, width,
                                       {query.rows + row * sizes.row.units, sizes.row.units, 1},
                                       key.panels + (block.key + column) * sizes.row.steps,
                                       sizes.row.steps, factor, bias + row * bias_stride + column,
                                       bias_stride);
      });
  }

  // Turns one row of scores into weights relative to the best score so far. A better score scales
  // the row's earlier sums down.
  void softmax_row(int64_t row, int64_t width, Number factor) {
    Number* score = scores + row * width;
    Unit* weight = weights + row * width / F::per_unit;
    if (by_tiles<F>)
      for (int64_t j = 0; j < width; j += n)
        vector_at(score + j) =
            vector_at(score + j) * factor + vector_at(bias + row * bias_stride + j);
    Vector<Number> most = vector_at(score);
    for (int64_t j = n; j < width; j += n) most = larger<Number>(vector_at(score + j), most);
    const Number now = largest_lane<Number>(most);
    const Number before = best[row];
    best[row] = now > before || now != now ? now : before;
    const Number base = best[row] == -Number(__builtin_inf()) ? Number(0) : best[row];
    Vector<Number> sum = {};
    const bool drops = problem.dropout > 0;
    for (int64_t j = 0; j < width; j += n) {
      Vector<Number> p = exp2_of(vector_at(score + j) - base);
      sum += p;
      if (drops) p *= vector_at(keep + row * width + j);
      F::store_along(weight + j / F::per_unit, p);
    }
    const Number shrink = exp2_of(Vector<Number>{} + (before - base))[0];
    total[row] = total[row] * shrink + sum_of_lanes<Number>(sum);
    if (shrink != 1 && before != -Number(__builtin_inf()))
      for (int64_t j = 0; j < sizes.row.features; j += n)
        vector_at(sums + row * sizes.row.features + j) *= shrink;
  }

  void start_queries(int64_t count) {
    if (sizes.keys == 0) memset(sums, 0, sizeof(Number) * size_t(count * sizes.row.features));
    for (int64_t i = 0; i < count; ++i) {
      best[i] = -Number(__builtin_inf());
      total[i] = 0;
    }
  }

  // Writes both parts of the queries' log_sum from `element` on.
  void finish_queries(const HeadRows& out, const View& log_sum, int64_t element,
                      const Block& block) {
    unpack(out, block.query, block.queries, sums, sizes.row.features,
           [&](int64_t i) { return total[i] == 0 ? Number(0) : 1 / total[i]; });
    for (int64_t i = 0; i < block.queries; ++i) total[i] = log_(total[i]) * Number(log2_e);
    for (const Number* numbers : {best, total}) {
      store_run(log_sum.as<char>() + element * size_of(log_sum.dtype), log_sum.dtype,
                log_sum.strides[2], numbers, block.queries);
      element += log_sum.strides[3];
    }
  }

  // Prefetches the next head's rows while a head is computed.
  void prefetch_around(int64_t batch, int64_t head, const View& out, const View& q, const View& k,
                       const View& v) {
    prefetch = {};
    prefetch.writes(head_rows(out, batch, head));
    const int64_t next = batch * problem.heads + head + 1;
    if (next == q.shape[0] * problem.heads) return;
    for (const View* x : {&q, &k, &v})
      prefetch.reads(head_rows(*x, next / problem.heads, next % problem.heads));
  }

  void run(int64_t batch, int64_t head, const View& out, const View& log_sum, const View& q,
           const View& k, const View& v, double scale) {
    prefetch_around(batch, head, out, q, k, v);
    const int64_t padded_keys = round_up(sizes.keys, granule<F>);
    [[maybe_unused]] const Registers<F> registers;
    pack<F>(key, spare, head_rows(k, batch, head), sizes.row, 0, sizes.keys, padded_keys);
    pack<F>(value, spare, head_rows(v, batch, head), sizes.row, 0, sizes.keys, padded_keys);
    for (int64_t first = 0; first < sizes.queries; first += sizes.query_block) {
      Block block = sizes.block(first, 0, sizes.keys);
      pack<F>(query, spare, head_rows(q, batch, head), sizes.row, first, block.queries,
              round_up(round_up(block.queries, block_rows), granule<F>));
      start_queries(block.queries);
      const int64_t end = problem.visible_end(first + block.queries);
      const int64_t begin = problem.visible_begin(batch, first, block.queries, panel_width<F>);
      for (int64_t at = begin; at < end; at += sizes.key_block) {
        block = sizes.block(first, at, end);
        add_keys(block, at == begin, batch, head, scale);
      }
      const int64_t element =
          batch * log_sum.strides[0] + head * log_sum.strides[1] + first * log_sum.strides[2];
      finish_queries(head_rows(out, batch, head), log_sum, element, block);
    }
  }

  void add_keys(const Block& block, bool is_first, int64_t batch, int64_t head, double scale) {
    const int64_t width = round_up(block.keys, granule<F>);
    const int64_t padded = round_up(block.queries, block_rows);
    const Number factor = Number(scale * log2_e);
    bias_stride = fill_bias(bias, width, problem, block, batch, head, padded);
    if (problem.dropout > 0) fill_keep(keep, width, problem, block, batch, head, padded);
    multiply_scores(block, width, factor);
    for (int64_t row = 0; row < block.queries; ++row) {
      prefetch.next_token();
      softmax_row(row, width, factor);
    }
    if constexpr (by_tiles<F>)
      add_tiles(is_first, {sums, sizes.row.features, tile_side}, {weights, width / F::per_unit},
                {value.columns + block.key / F::per_unit * sizes.row.features, sizes.row.features,
                 tile_side},
                round_up(block.queries, tile_side), sizes.row.features, width / F::per_unit);
    else
      add_product<F>(is_first, sums, {weights, width / F::per_unit, 1},
                   value.columns + block.key / F::per_unit * sizes.row.features, block.queries,
                   sizes.row.features, width / F::per_unit);
  }
};

template <class F>
void forward(const View& out, const View& log_sum, const View& q, const View& k, const View& v,
             const Problem& problem, double scale) {
  int64_t bytes = 0;
  Forward<F>(Layout(nullptr), &bytes, problem, q, k);
  for_each_block(q.shape[0] * problem.heads, [&](int64_t i) {
    thread_local Scratch scratch;
    int64_t used = 0;
    Forward<F> pass(Layout(scratch.get<char>(bytes)), &used, problem, q, k);
    pass.run(i / problem.heads, i % problem.heads, out, log_sum, q, k, v, scale);
  });
}

}  // namespace

void attention(View out, View log_sum, View q, View k, View v, View mask, double scale,
               VisibleKeys visible, double dropout, RandomPosition position) {
  const Problem problem{q.shape[1], q.shape[2], k.shape[2], mask, visible, dropout, position};
  const bool same = k.dtype == q.dtype && v.dtype == q.dtype;
  visit_format(q.dtype, same, [&](auto format) {
    forward<decltype(format)>(out, log_sum, q, k, v, problem, scale);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
