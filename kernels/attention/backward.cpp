// Gradients of attention by the formulae of Dao et al., "FlashAttention" (2022), appendix B.4: with
// the probabilities p recomputed from log_sum and g the gradient of out,
//   dv = p^T g,  dp = g v^T,  ds = p (dp - sum(g out)),  dq = scale ds k,  dk = scale ds^T q.
// Probabilities and slopes go directly from registers to 16-bit (or f32) tiles in cache.
#include "kernels/attention/block.h"
#include "kernels/catalogue.h"
#include "kernels/walks/rows.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

using namespace tile;

// Sums over queries (dk, dv) are loaded and stored once per block. Longer blocks are therefore
// faster if a block's tiles and the next head's rows fit the second-level cache. Pairs take half
// the space.
template <class F>
constexpr int64_t most_queries = 64 * F::per_unit;
template <class F>
constexpr int64_t most_keys = keys_per_block;
// With 16 registers p is spilled to memory while dp is summed. That costs less than fewer sums,
// which would not hide their latency. ViT-Ti/16 batch 16 on a Zen 3 core takes 19.5 ms; with two
// rows it takes 21.3 ms.
constexpr int gradient_rows = 4;

template <class F>
struct Backward {
  using Number = typename F::Number;
  using Unit = typename F::Unit;
  static constexpr int n = lanes<Number>;

  const Problem& problem;
  Sizes<F> sizes;
  Packed<F> query, gradient, key, value;
  Unit *spare, *weights, *slopes_across, *slopes_along, *query_across, *gradient_across;
  Number *bias, *keep, *largest, *log_sums, *deltas, *query_sums, *key_sums, *value_sums, *row_pair,
      *square;
  int64_t bias_stride = 0, panel_rows = 0;
  Prefetch prefetch;

  Backward(Layout layout, int64_t* bytes, const Problem& problem, const View& q, const View& k)
      : problem(problem), sizes(q, k, most_queries<F>, most_keys<F>) {
    const int64_t block = (sizes.query_block + slack) * sizes.key_block;
    const int64_t features = sizes.row.features;
    for (Packed<F>* tokens : {&query, &gradient}) {
      tokens->rows = layout.take<Unit>(sizes.row_units(sizes.query_block));
      tokens->columns = layout.take<Unit>(sizes.column_units(sizes.query_block));
    }
    key.panels = layout.take<Unit>(sizes.panel_units(sizes.keys));
    key.columns = layout.take<Unit>(sizes.column_units(sizes.keys));
    value.panels = layout.take<Unit>(sizes.panel_units(sizes.keys));
    spare = layout.take<Unit>(sizes.row_units(1));
    weights = layout.take<Unit>(block / F::per_unit + slack);
    slopes_across = layout.take<Unit>(block / F::per_unit + slack);
    slopes_along = F::per_unit == 1 ? slopes_across : layout.take<Unit>(block / F::per_unit);
    bias = layout.take<Number>(problem.may_differ() ? block : sizes.key_block);
    keep = layout.take<Number>(problem.dropout > 0 ? block : 0);
    largest = layout.take<Number>(sizes.query_block);
    log_sums = layout.take<Number>(sizes.query_block);
    deltas = layout.take<Number>(sizes.query_block);
    query_sums = layout.take<Number>((sizes.query_block + slack) * features);
    key_sums = layout.take<Number>((padded_keys() + slack) * features);
    value_sums = layout.take<Number>((padded_keys() + slack) * features);
    row_pair = layout.take<Number>(2 * features);
    const int64_t tiled = by_tiles<F> ? 1 : 0;
    for (Unit** across : {&query_across, &gradient_across})
      *across = layout.take<Unit>(tiled * features * sizes.query_block / F::per_unit);
    square = layout.take<Number>(tiled * 2 * granule<F> * granule<F>);
    *bytes = layout.used();
  }

  int64_t padded_keys() const { return round_up(sizes.keys, granule<F>); }
  static int64_t padded_queries(const Block& block) {
    return round_up(block.queries, by_tiles<F> ? granule<F> : gradient_rows);
  }

  // Computes probabilities and slopes of one tile in registers.
  template <int columns>
  KERNEL_FN void slope_tile(int64_t row, int64_t column, int64_t width, const Block& block,
                            Number factor) {
    const int64_t panel = (block.key + column) * sizes.row.steps;
    const int64_t units = row * sizes.row.units;
    Vector<Number> p[gradient_rows][columns], slope[gradient_rows][columns];
    clear<Number>(p);
    clear<Number>(slope);
    multiply_add<F>(p, {query.rows + units, sizes.row.units, 1}, key.panels + panel, panel_width<F>,
                    sizes.row.steps);
    multiply_add<F>(slope, {gradient.rows + units, sizes.row.units, 1}, value.panels + panel,
                    panel_width<F>, sizes.row.steps);
    finish_tile(p, slope, row, column, width, factor);
  }

  // The same for a square, whose products leave tile registers through the first-level cache.
  KERNEL_FN void slope_square(int64_t row, int64_t column, int64_t width, const Block& block,
                              Number factor) {
    const int64_t panel = (block.key + column) * sizes.row.units, side = tile_side;
    const int64_t units = sizes.row.units;
    Number* const across = square + side * side;
    add_tiles(true, {square, side}, {query.rows + row * units, units}, {key.panels + panel, side},
              side, side, units);
    add_tiles(true, {across, side}, {gradient.rows + row * units, units},
              {value.panels + panel, side}, side, side, units);
    for (int64_t i = 0; i < side; i += gradient_rows) {
      prefetch.next_token();
      Vector<Number> p[gradient_rows][2], slope[gradient_rows][2];
      FOR_TILE (r, gradient_rows)
        FOR_TILE (c, 2) {
          p[r][c] = vector_at(square + (i + r) * side + c * n);
          slope[r][c] = vector_at(across + (i + r) * side + c * n);
        }
      finish_tile(p, slope, row + i, column, width, factor);
    }
  }

  // Turns scores into probabilities p and dp into slopes ds = p (dp - delta). Writes them in both
  // layouts that the three products need.
  template <int columns>
  KERNEL_FN void finish_tile(Vector<Number> (&p)[gradient_rows][columns],
                             Vector<Number> (&slope)[gradient_rows][columns], int64_t row,
                             int64_t column, int64_t width, Number factor) {
    const bool drops = problem.dropout > 0;
    FOR_TILE (c, columns)
      FOR_TILE (r, gradient_rows) {
        const int64_t at = column + c * n;
        const Vector<Number> score =
            p[r][c] * factor + vector_at(bias + (row + r) * bias_stride + at);
        // Subtracts in two steps: added to a score of -1e9, the sum's logarithm would vanish.
        p[r][c] = exp2_of(score - largest[row + r] - log_sums[row + r]);
        Vector<Number> dp = slope[r][c];
        Vector<Number> dropped = p[r][c];
        if (drops) {
          const Vector<Number> kept = vector_at(keep + (row + r) * width + at);
          dp *= kept;
          dropped *= kept;
        }
        slope[r][c] = p[r][c] * (dp - deltas[row + r]);
        p[r][c] = dropped;
      }
    store_tile(p, slope, row, column, width);
  }

  template <int columns>
  KERNEL_FN void store_tile(const Vector<Number> (&p)[gradient_rows][columns],
                            const Vector<Number> (&slope)[gradient_rows][columns], int64_t row,
                            int64_t column, int64_t width) {
    FOR_TILE (c, columns)
      FOR_TILE (unit, gradient_rows / F::per_unit) {
        const int r = unit * F::per_unit;
        const int64_t unit_row = (row + r) / F::per_unit;
        const int64_t at = by_tiles<F> ? column * panel_rows + unit_row * granule<F> + c * n
                                       : unit_row * width + column + c * n;
        Vector<Number> p_unit[F::per_unit], slope_unit[F::per_unit];
        FOR_TILE (i, F::per_unit) {
          p_unit[i] = p[r + i][c];
          slope_unit[i] = slope[r + i][c];
          if (F::per_unit > 1)
            F::store_along(slopes_along + ((row + r + i) * width + column + c * n) / F::per_unit,
                           slope[r + i][c]);
        }
        F::store_across(weights + at, p_unit);
        F::store_across(slopes_across + at, slope_unit);
      }
  }

  // Adds dv += p^T g, dk += ds^T q, dq += ds k.
  void add_keys(const Block& block, bool is_first, int64_t batch, int64_t head, Number factor) {
    const int64_t width = round_up(block.keys, granule<F>);
    const int64_t features = sizes.row.features;
    const int64_t padded = padded_queries(block);
    bias_stride = fill_bias(bias, width, problem, block, batch, head, padded);
    if (problem.dropout > 0) fill_keep(keep, width, problem, block, batch, head, padded);
    const int64_t steps = padded / F::per_unit;
    const bool fresh = block.query == 0 && problem.sees_all_keys();
    if constexpr (by_tiles<F>) {
      panel_rows = steps;
      for (int64_t column = 0; column < width; column += tile_side)
        for (int64_t row = 0; row < padded; row += tile_side)
          slope_square(row, column, width, block, factor);
      return add_tiled_products(block, fresh, is_first, width, padded);
    }
    for (int64_t column = 0; column < width; column += panel_width<F>)
      with_vectors<panel_vectors>((width - column) / n, [&](auto columns) {
        for (int64_t row = 0; row < padded; row += gradient_rows) {
          prefetch.next_token();
          slope_tile<columns.value>(row, column, width, block, factor);
        }
      });
    add_product<F>(fresh, value_sums + block.key * features, {weights, 1, width}, gradient.columns,
                   block.keys, features, steps);
    add_product<F>(fresh, key_sums + block.key * features, {slopes_across, 1, width}, query.columns,
                   block.keys, features, steps);
    add_product<F>(is_first, query_sums, {slopes_along, width / F::per_unit, 1},
                   key.columns + block.key / F::per_unit * features, block.queries, features,
                   width / F::per_unit);
  }

  // The same by tiles. Sums over queries are transposed and in panels: [panel of keys][feature][key
  // of the panel].
  void add_tiled_products(const Block& block, bool fresh, bool is_first, int64_t width,
                          int64_t padded) {
    const int64_t features = sizes.row.features, key = block.key;
    const int64_t steps = padded / F::per_unit, stride = sizes.query_block / F::per_unit;
    add_tiles(fresh, {value_sums + key * features, tile_side, tile_side * features},
              {gradient_across, stride}, {weights, tile_side, tile_side * steps}, features, width,
              steps);
    add_tiles(fresh, {key_sums + key * features, tile_side, tile_side * features},
              {query_across, stride}, {slopes_across, tile_side, tile_side * steps}, features,
              width, steps);
    add_tiles(is_first, {query_sums, features, tile_side}, {slopes_along, width / F::per_unit},
              {this->key.columns + key / F::per_unit * features, features, tile_side}, padded,
              features, width / F::per_unit);
  }

  // Computes delta = sum over features of g * out, which equals sum over keys of p * dp.
  void start_queries(const HeadRows& g, const HeadRows& out, const View& log_sum, int64_t element,
                     const Block& block) {
    const int64_t features = sizes.row.features;
    if (sizes.keys == 0) memset(query_sums, 0, sizeof(Number) * size_t(block.queries * features));
    memset(row_pair, 0, sizeof(Number) * size_t(2 * features));
    for (Number* numbers : {largest, log_sums}) {
      load_run(numbers, log_sum.as<const char>() + element * size_of(log_sum.dtype), log_sum.dtype,
               log_sum.strides[2], block.queries);
      element += log_sum.strides[3];
    }
    constexpr Number infinity = Number(__builtin_inf());
    for (int64_t i = 0; i < padded_queries(block); ++i) {
      const bool real = i < block.queries && largest[i] != -infinity;
      deltas[i] = 0;
      if (!real) {  // all probabilities are 0
        largest[i] = 0;
        log_sums[i] = infinity;
        continue;
      }
      load_run(row_pair, g.row(block.query + i), g.dtype, 1, g.features);
      load_run(row_pair + features, out.row(block.query + i), out.dtype, 1, g.features);
      Vector<Number> sum = {};
      for (int64_t j = 0; j < features; j += n)
        sum += vector_at(row_pair + j) * vector_at(row_pair + features + j);
      deltas[i] = sum_of_lanes<Number>(sum);
    }
  }

  struct Tensors {
    View dq, dk, dv, g, q, k, v, out, log_sum;
  };

  // Prefetches its outputs' rows and the next head's rows while a head is computed.
  void prefetch_around(int64_t batch, int64_t head, const Tensors& x) {
    prefetch = {};
    for (const View* y : {&x.dq, &x.dk, &x.dv}) prefetch.writes(head_rows(*y, batch, head));
    const int64_t next = batch * problem.heads + head + 1;
    if (next == x.q.shape[0] * problem.heads) return;
    for (const View* y : {&x.q, &x.k, &x.v, &x.g, &x.out})
      prefetch.reads(head_rows(*y, next / problem.heads, next % problem.heads));
  }

  void pack_across(int64_t padded) {
    const int64_t features = sizes.row.features, stride = sizes.query_block / F::per_unit;
    transpose_matrix(query_across, stride, query.columns, features, padded / F::per_unit, features);
    transpose_matrix(gradient_across, stride, gradient.columns, features, padded / F::per_unit,
                     features);
  }

  template <class Scale>
  void unpack_key_sums(const HeadRows& target, Number* sums, Scale&& scale) {
    const int64_t features = sizes.row.features;
    if (!by_tiles<F>) return unpack(target, 0, sizes.keys, sums, features, scale);
    for (int64_t at = 0; at < sizes.keys; at += granule<F>) {
      transpose_matrix(query_sums, features, sums + at * features, granule<F>, features,
                       granule<F>);
      unpack(target, at, smaller(granule<F>, sizes.keys - at), query_sums, features, scale);
    }
  }

  void run(int64_t batch, int64_t head, const Tensors& x, double scale) {
    const int64_t features = sizes.row.features;
    [[maybe_unused]] const Registers<F> registers;
    prefetch_around(batch, head, x);
    const auto by_scale = [&](int64_t) { return Number(scale); };
    const auto rows = [&](const View& view) { return head_rows(view, batch, head); };
    pack<F>(key, spare, rows(x.k), sizes.row, 0, sizes.keys, padded_keys());
    pack<F>(value, spare, rows(x.v), sizes.row, 0, sizes.keys, padded_keys());
    if (!problem.sees_all_keys() ||
        sizes.queries == 0)  // the first block of queries does not see all keys
      for (Number* sums : {key_sums, value_sums})
        memset(sums, 0, sizeof(Number) * size_t(padded_keys() * features));
    for (int64_t first = 0; first < sizes.queries; first += sizes.query_block) {
      const Block block = sizes.block(first, 0, sizes.keys);
      const int64_t padded = round_up(round_up(block.queries, block_rows), granule<F>);
      pack<F>(query, spare, rows(x.q), sizes.row, first, block.queries, padded);
      pack<F>(gradient, spare, rows(x.g), sizes.row, first, block.queries, padded);
      if (by_tiles<F>) pack_across(padded);
      const View& log_sum = x.log_sum;
      const int64_t element =
          batch * log_sum.strides[0] + head * log_sum.strides[1] + first * log_sum.strides[2];
      start_queries(rows(x.g), rows(x.out), log_sum, element, block);
      const int64_t end = problem.visible_end(first + block.queries);
      const int64_t begin = problem.visible_begin(batch, first, block.queries, panel_width<F>);
      for (int64_t at = begin; at < end; at += sizes.key_block)
        add_keys(sizes.block(first, at, end), at == begin, batch, head, Number(scale * log2_e));
      unpack(rows(x.dq), first, block.queries, query_sums, features, by_scale);
    }
    unpack_key_sums(rows(x.dk), key_sums, by_scale);
    unpack_key_sums(rows(x.dv), value_sums, [](int64_t) { return Number(1); });
  }
};

template <class F>
void backward(const typename Backward<F>::Tensors& x, const Problem& problem, double scale) {
  int64_t bytes = 0;
  Backward<F>(Layout(nullptr), &bytes, problem, x.q, x.k);
  for_each_block(x.q.shape[0] * problem.heads, [&](int64_t i) {
    thread_local Scratch scratch;
    int64_t used = 0;
    Backward<F> pass(Layout(scratch.get<char>(bytes)), &used, problem, x.q, x.k);
    pass.run(i / problem.heads, i % problem.heads, x, scale);
  });
}

}  // namespace

void attention_backward(View dq, View dk, View dv, View g, View q, View k, View v, View out,
                        View log_sum, View mask, double scale, VisibleKeys visible, double dropout,
                        RandomPosition position) {
  const Problem problem{q.shape[1], q.shape[2], k.shape[2], mask, visible, dropout, position};
  const bool same = k.dtype == q.dtype && v.dtype == q.dtype && g.dtype == q.dtype;
  visit_format(q.dtype, same, [&](auto format) {
    backward<decltype(format)>({dq, dk, dv, g, q, k, v, out, log_sum}, problem, scale);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
