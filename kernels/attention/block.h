// Blocks of queries and keys of a head, and a block's working memory. Also the terms that are added
// to or multiplied into its scores: mask, causality, padding, dropout.
#pragma once

#include "kernels/arguments/visible_keys.h"
#include "kernels/attention/log_2.h"
#include "kernels/attention/pack.h"
#include "kernels/numbers/random.h"

namespace booster::kernels::BOOSTER_VARIANT::tile {

// Rows of a block are padded to a multiple of this; the rows of a tile divide it.
constexpr int block_rows = 8;
constexpr int64_t keys_per_block = 384;  // one block for the sequences of image models
constexpr int slack = 16;                // rows or units that whole tiles may touch beyond a block

// A block of scores of one head: queries x keys.
struct Block {
  int64_t query, queries;
  int64_t key, keys;
};

// The data that all heads of a call share.
struct Problem {
  int64_t heads, queries, keys;
  View mask;
  VisibleKeys visible;
  double dropout;
  RandomPosition position;

  // Returns the end of the keys that a block of queries can see, and a place up to which it sees
  // none, if keys are read from multiples of `step` on. All others are skipped.
  int64_t visible_end(int64_t query_end) const {
    return visible.causal ? smaller(keys, query_end) : keys;
  }
  int64_t visible_begin(int64_t batch, int64_t query, int64_t count, int64_t step) const {
    if (!visible.first.data) return 0;
    int64_t first = visible_end(query + count) - 1;
    for (int64_t i = 0; i < count; ++i) first = smaller(first, first_key(batch, query + i));
    return first > 0 ? first / step * step : 0;
  }
  int64_t first_key(int64_t batch, int64_t query) const {
    const View& first = visible.first;
    if (!first.data) return 0;
    return first.as<const int64_t>()[batch * first.strides[0] + query * first.strides[1]];
  }
  bool sees_all_keys() const { return !visible.causal && !visible.first.data; }
  // Returns true if queries of a block may have their own rows of bias.
  bool may_differ() const { return !sees_all_keys() || mask.data; }
  // Returns true if those of this block do; otherwise one row serves all its queries.
  bool bias_per_query(const Block& block, int64_t batch) const {
    if (mask.data || (visible.causal && block.key + block.keys > block.query + 1)) return true;
    for (int64_t i = 0; visible.first.data && i < block.queries; ++i)
      if (first_key(batch, block.query + i) > block.key) return true;
    return false;
  }
};

// Hands out pieces of one buffer. With a null base it only adds up their sizes.
class Layout {
 public:
  explicit Layout(char* base) : base_(reinterpret_cast<uintptr_t>(base)) {}
  template <class T>
  T* take(int64_t n) {
    T* piece = reinterpret_cast<T*>(base_ + used_);
    used_ += round_up(n * int64_t(sizeof(T)), 64);
    return piece;
  }
  int64_t used() const { return used_; }

 private:
  uintptr_t base_;
  int64_t used_ = 0;
};

// Sizes common to both passes.
template <class F>
struct Sizes {
  static constexpr int vector = lanes<typename F::Number>;
  int64_t queries, keys;
  Widths<F> row;
  int64_t query_block, key_block;

  Sizes(const View& q, const View& k, int64_t most_queries,
        int64_t most_keys = keys_per_block)
      : queries(q.shape[2]),
        keys(k.shape[2]),
        row(widths_for<F>(q.shape[3])),
        query_block(even_block(queries, most_queries, by_tiles<F> ? granule<F> : block_rows)),
        key_block(even_block(keys, most_keys, panel_width<F>)) {}

  int64_t row_units(int64_t tokens) const { return round_up(tokens, granule<F>) * row.units; }
  int64_t column_units(int64_t tokens) const { return round_up(tokens, granule<F>) * row.features; }
  int64_t panel_units(int64_t tokens) const { return round_up(tokens, panel_width<F>) * row.units; }
  // Ends the block at the panel of keys that contains `key_end`, since products write whole tiles.
  Block block(int64_t query, int64_t key, int64_t key_end) const {
    const int64_t end = smaller(round_up(key_end, panel_width<F>), keys);
    return {query, smaller(query_block, queries - query), key, smaller(key_block, end - key)};
  }
};

// Calls f with the fastest format for products of these operands that keeps their precision.
template <class Body>
KERNEL_FN void visit_format(DType dtype, [[maybe_unused]] bool all_the_same, Body&& f) {
  if (dtype == DType::f64) return f(Plain<double>{});
#if defined(__AMX_BF16__)
  if (dtype == DType::bf16 && all_the_same) return f(Bf16Tiles{});
#elif defined(__AVX512BF16__)
  if (dtype == DType::bf16 && all_the_same) return f(Bf16Pairs{});
#endif
  f(Plain<float>{});
}

// Start and key stride of the mask's row for one query. The mask's sizes align from the right; a
// size of 1 (or a missing dimension) is broadcast.
struct MaskRow {
  const char* data;
  int64_t stride;
};
inline MaskRow mask_row(const View& mask, int64_t batch, int64_t head, int64_t query) {
  const int64_t place[3] = {batch, head, query};
  int64_t element = 0;
  const int missing = 4 - mask.ndim;
  for (int i = 0; i < mask.ndim - 1; ++i)
    if (mask.shape[i] > 1) element += place[i + missing] * mask.strides[i];
  const int last = mask.ndim - 1;
  const bool one = last < 0 || mask.shape[last] == 1;
  return {mask.as<const char>() + element * size_of(mask.dtype), one ? 0 : mask.strides[last]};
}

// Fills bias (block.queries rows, or one; `width` values each) with the terms to add to scores, in
// units of log 2. They are the mask, and -infinity for keys hidden by causality or padding. Returns
// the stride of rows: 0 for one.
template <class Number>
int64_t fill_bias(Number* bias, int64_t width, const Problem& problem, const Block& block,
                  int64_t batch, int64_t head, int64_t padded_queries) {
  constexpr Number hidden = -Number(__builtin_inf());
  const bool per_query = problem.bias_per_query(block, batch);
  const int64_t rows = per_query ? padded_queries : 1;
  for (int64_t i = 0; i < rows; ++i, bias += width) {
    const int64_t query = block.query + i;
    memset(bias, 0, sizeof(Number) * size_t(width));
    if (problem.mask.data && i < block.queries) {
      const MaskRow row = mask_row(problem.mask, batch, head, query);
      const bool truth = problem.mask.dtype == DType::boolean;
      load_run(bias, row.data + block.key * row.stride * size_of(problem.mask.dtype),
               problem.mask.dtype, row.stride, block.keys);
      for (int64_t j = 0; j < block.keys; ++j)
        bias[j] = truth ? (bias[j] != 0 ? Number(0) : hidden) : in_log_2(bias[j]);
    }
    const bool is_causal = problem.visible.causal && per_query;
    const int64_t end = is_causal ? smaller(block.keys, query + 1 - block.key) : block.keys;
    for (int64_t j = end > 0 ? end : 0; j < width; ++j) bias[j] = hidden;
    const bool is_real = per_query && i < block.queries;
    const int64_t begin = is_real ? problem.first_key(batch, query) - block.key : 0;
    for (int64_t j = 0; j < smaller(begin, width); ++j) bias[j] = hidden;
  }
  return per_query ? width : 0;
}

// Fills keep (block.queries, width) with 0 for dropped probabilities and 1 / (1 - p) for kept ones.
// Element (batch, head, query, key) of the whole call has its own random number, independent of the
// blocks.
template <class Number>
void fill_keep(Number* keep, int64_t width, const Problem& problem, const Block& block,
               int64_t batch, int64_t head, int64_t padded_queries) {
  const uint32_t threshold = drop_threshold(problem.dropout);
  const Number kept = problem.dropout < 1 ? Number(1 / (1 - problem.dropout)) : Number(0);
  for (int64_t i = 0; i < padded_queries; ++i) {
    const int64_t row = (batch * problem.heads + head) * problem.queries + block.query + i;
    const int64_t first = row * problem.keys + block.key;
    for (int64_t j = 0; j < width; ++j)
      keep[i * width + j] =
          random_bits(problem.position, first + j) >= threshold ? kept : Number(0);
  }
}

}  // namespace booster::kernels::BOOSTER_VARIANT::tile
