// The scores of a tile: hiding, mask terms and dropout. A warp has 16 rows of them in fragments.
// Rows are queries and columns keys, or ("across") vice versa.
#pragma once

#include "kernels/attention/log_2.h"
#include "kernels/cuda/attention/choice.h"
#include "kernels/cuda/attention/fragments.cuh"
#include "kernels/numbers/random.h"

namespace booster::kernels::BOOSTER_VARIANT::tiles {

inline constexpr float infinity = __builtin_inff();

// A tensor (batch, heads, tokens, features) as a kernel's argument.
struct Tokens {
  void* data;
  int64_t strides[3];
  int tokens, features;
  bool in_packs;

  Tokens(const View& x)
      : data(x.data),
        strides{x.strides[0], x.strides[1], x.strides[2]},
        tokens(static_cast<int>(x.shape[2])),
        features(static_cast<int>(x.shape[3])),
        in_packs(reinterpret_cast<uintptr_t>(data) % 16 == 0 && features % pack_size == 0) {
    for (const int64_t stride : strides) in_packs = in_packs && stride % pack_size == 0;
  }
  template <class T, bool whole>
  __device__ Head<T, whole> head(int batch, int head) const {
    return {static_cast<T*>(data) + batch * strides[0] + head * strides[1], strides[2], tokens,
            features, in_packs};
  }
};

// The terms added to scores. Sizes align from the right; a size of 1, or a missing one, is
// broadcast.
struct Mask {
  const void* data;
  DType dtype;
  int64_t strides[4] = {};  // batch, head, query, key

  Mask(const View& x) : data(x.data), dtype(x.dtype) {
    for (int i = 0; data && i < x.ndim; ++i)
      if (x.shape[i] > 1) strides[i + 4 - x.ndim] = x.strides[i];
  }
};

struct Dropout {
  RandomPosition position;
  uint32_t threshold;
  float kept;  // the factor of kept values
  bool drops;

  Dropout(double p, RandomPosition position)
      : position(position),
        threshold(drop_threshold(p)),
        kept(p < 1 ? static_cast<float>(1 / (1 - p)) : 0.0f),
        drops(p > 0) {}
};

// The arguments shared by all blocks.
struct Call {
  Tokens q, k, v, out;
  float* log_sum;
  int64_t log_sum_strides[4];
  int64_t batches;
  int heads;
  int queries, keys;
  Mask mask;
  float scale;
  bool causal;
  Dropout dropout;

  Call(const AttentionTensors& x, double scale, bool causal, double dropout,
       RandomPosition position)
      : q(x.q),
        k(x.k),
        v(x.v),
        out(x.out),
        log_sum(x.log_sum.as<float>()),
        log_sum_strides{x.log_sum.strides[0], x.log_sum.strides[1], x.log_sum.strides[2],
                        x.log_sum.strides[3]},
        batches(x.q.shape[0]),
        heads(static_cast<int>(x.q.shape[1])),
        queries(q.tokens),
        keys(k.tokens),
        mask(x.mask),
        scale(static_cast<float>(scale)),
        causal(causal),
        dropout(dropout, position) {}

  bool in_packs() const { return q.in_packs && k.in_packs && v.in_packs && out.in_packs; }
  // Returns the number of keys visible to queries before `end`.
  __device__ int visible_keys(int end) const { return causal && end < keys ? end : keys; }
  // Returns a query's number among the queries of all heads.
  __device__ int64_t row(int batch, int head, int query) const {
    return (int64_t{batch} * heads + head) * queries + query;
  }
  // Returns the first or second part of log_sum.
  __device__ float* log_sum_of(int batch, int head, int query, int part) const {
    return log_sum + batch * log_sum_strides[0] + head * log_sum_strides[1] +
           query * log_sum_strides[2] + part * log_sum_strides[3];
  }
};

// A compiled kernel's parameters: the dtype, the width of tiles, the number of warps, and whether
// it is plain (no mask, no dropout, and all tensors' rows are whole packs).
template <class T, int size, int number_of_warps, bool is_plain>
struct Kind {
  using Number = T;
  static constexpr int width = size, warps = number_of_warps;
  static constexpr bool plain = is_plain;
};

// A block has the rows of 4 or 7 warps.
constexpr int some_warps = 4, more_warps = 7;
// Returns true if blocks of more warps leave no more rows empty. Such blocks reread other operands
// less often.
inline bool wants_more_warps(int tokens) {
  const auto rows = [=](int warps) {
    const int of_block = warps * rows_per_warp;
    return (tokens + of_block - 1) / of_block * of_block;
  };
  return rows(more_warps) <= rows(some_warps);
}

template <bool may_have_more_warps, class T, class Body>
void visit_number(const Call& call, bool plain, int tokens, Body&& body) {
  const bool narrow = call.q.features <= 64;
  if constexpr (may_have_more_warps)
    if (narrow && plain && wants_more_warps(tokens)) return body(Kind<T, 64, more_warps, true>{});
  if (narrow)
    plain ? body(Kind<T, 64, some_warps, true>{}) : body(Kind<T, 64, some_warps, false>{});
  else
    plain ? body(Kind<T, 128, some_warps, true>{}) : body(Kind<T, 128, some_warps, false>{});
}
// Calls body with the kind of kernel for a call whose blocks share `tokens` of each head. `whole`:
// all its tensors' rows are whole packs.
template <bool may_have_more_warps, class Body>
void visit_kinds(const Call& call, DType dtype, bool whole, int tokens, Body&& body) {
  const bool plain = whole && !call.mask.data && !call.dropout.drops;
  if (dtype == DType::f16)
    visit_number<may_have_more_warps, f16>(call, plain, tokens, body);
  else
    visit_number<may_have_more_warps, bf16>(call, plain, tokens, body);
}

// A block's work: some tokens of one head, from `first` on. The last tokens come first: with
// causality they have the most work as queries, and the least as keys.
template <int warps>
struct BlockPlace {
  static constexpr int rows = warps * rows_per_warp;
  int batch, head;
  int first;
  bool warp_has_tokens;  // false for some warps of a head's last block, which idle

  // Finds the block's work by 32-bit divisions, which are far cheaper: block numbers are below
  // 2^31.
  __device__ BlockPlace(const Call& call, int64_t block, int tokens) {
    const unsigned of_head = (tokens + rows - 1) / rows;
    const unsigned number = static_cast<unsigned>(block), all_heads = number / of_head;
    const unsigned heads = static_cast<unsigned>(call.heads);
    batch = static_cast<int>(all_heads / heads);
    head = static_cast<int>(all_heads % heads);
    first = static_cast<int>(of_head - 1 - number % of_head) * rows;
    warp_has_tokens = warp_first() < tokens;
  }
  // Returns the token of the warp's first row.
  __device__ int warp_first() const { return first + warp_row(); }
  static int64_t count(const Call& call, int tokens) {
    return call.batches * call.heads * ((tokens + rows - 1) / rows);
  }
};

// The position of a warp's scores: the query and key of its first row and column.
struct TilePlace {
  int batch, head;
  int query, key;
};

// Calls body(score, query, key) for each of the lane's scores.
template <bool across, int fragments, class Body>
__device__ void for_each_score(float (&scores)[fragments][4], const TilePlace& at, Body&& body) {
  const int row = lane_row(), column = lane_column();
#pragma unroll
  for (int i = 0; i < fragments; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const int down = row + j / 2 * 8, right = column + i * 8 + j % 2;
      body(scores[i][j], at.query + (across ? right : down), at.key + (across ? down : right));
    }
}

// Multiplies by a factor and adds the mask's terms, in units of log 2. Terms beyond the last query
// and key are arbitrary.
template <bool across, class T, int fragments>
__device__ void add_terms(float (&scores)[fragments][4], float factor, const Call& call,
                          const TilePlace& at) {
  const Mask& mask = call.mask;
  const T* terms =
      static_cast<const T*>(mask.data) + at.batch * mask.strides[0] + at.head * mask.strides[1];
  for_each_score<across>(scores, at, [&](float& score, int query, int key) {
    const int64_t row = query < call.queries ? query : call.queries - 1;
    const int64_t column = key < call.keys ? key : call.keys - 1;
    const float term = load<float>(terms + row * mask.strides[2] + column * mask.strides[3]);
    if constexpr (__is_same(T, bool))
      score = term != 0 ? score * factor : -infinity;
    else
      score = score * factor + in_log_2(term);
  });
}

// Sets scores of hidden and missing keys to -infinity. With "across", rows of missing keys are not
// stored.
template <bool across, int fragments>
__device__ void hide(float (&scores)[fragments][4], const Call& call, const TilePlace& at) {
  constexpr int tile_keys = across ? rows_per_warp : fragments * 8;
  const bool has_all = across || at.key + tile_keys <= call.keys;
  if (has_all && !(call.causal && at.key + tile_keys - 1 > at.query)) return;
  for_each_score<across>(scores, at, [&](float& score, int query, int key) {
    if (key >= call.keys || (call.causal && key > query)) score = -infinity;
  });
}

// Converts products of rows to scores with the mask's terms, and -infinity for hidden and missing
// keys. Returns a positive factor that still converts them to units of log 2. The code that
// computes a score's exponential multiplies and subtracts in one step.
template <bool across, bool plain, int fragments>
__device__ float finish_scores(float (&scores)[fragments][4], const Call& call,
                               const TilePlace& at) {
  float factor = call.scale * float(log2_e);
  if (!plain && call.mask.data) {
    if (call.mask.dtype == DType::boolean)
      add_terms<across, bool>(scores, factor, call, at);
    else
      visit_floating(call.mask.dtype, [&]<class T>(T*) {
        add_terms<across, T>(scores, factor, call, at);
      });
    factor = 1;
  } else if (!(factor > 0)) {  // it would invert the order of scores, or hide none
    for_each_score<across>(scores, at, [&](float& score, int, int) { score *= factor; });
    factor = 1;
  }
  hide<across>(scores, call, at);
  return factor;
}

// Sets bit i of the result if the probability with random number first + i is kept. `count` is 8,
// 16 or 32.
template <int count>
__device__ uint32_t kept_bits(const Dropout& dropout, int64_t first) {
  uint64_t bits = 0;
#pragma unroll 1
  for (int i = 0; i <= count / 4; ++i) {
    const Philox numbers = random_block(dropout.position, static_cast<uint64_t>(first / 4 + i));
#pragma unroll
    for (int word = 0; word < 4; ++word)
      bits |= uint64_t(numbers.word[word] >= dropout.threshold) << (i * 4 + word);
  }
  return static_cast<uint32_t>(bits >> (first % 4)) & (0xFFFFFFFFu >> (32 - count));
}

// The probabilities of a tile that dropout keeps. Each lane draws the random numbers for a part of
// the warp's scores, so that no number is drawn twice. The lanes exchange them by shuffles.
template <bool across, int columns>
class Keeping;

// Rows are queries: two lanes draw for each.
template <int columns>
class Keeping<false, columns> {
 public:
  __device__ Keeping(const Call& call, const TilePlace& at) : dropout_(call.dropout) {
    constexpr int half = columns / 2;
    const int query = at.query + lane() / 2;
    const int64_t row = call.row(at.batch, at.head, query);
    const uint32_t mine =
        kept_bits<half>(call.dropout, row * call.keys + at.key + lane() % 2 * half);
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      const int lower = (lane_row() + i * 8) * 2;
      const uint64_t left = __shfl_sync(all_lanes, mine, lower);
      const uint64_t right = __shfl_sync(all_lanes, mine, lower + 1);
      rows_[i] = (left | right << half) >> lane_column();
    }
  }
  __device__ bool has(int i, int j) const { return rows_[j / 2] >> (i * 8 + j % 2) & 1; }
  // Returns the factor of a probability.
  __device__ float factor(int i, int j) const { return has(i, j) ? dropout_.kept : 0; }

 private:
  const Dropout& dropout_;
  uint64_t rows_[2];
};

// Columns are queries, 16 or 32: a lane draws for half of a query's keys, or for all of them.
template <int columns>
class Keeping<true, columns> {
 public:
  __device__ Keeping(const Call& call, const TilePlace& at) : dropout_(call.dropout) {
    static_assert(columns == 16 || columns == 32);
    constexpr int keys_each = rows_per_warp * columns / warp_size;
    const int query = at.query + lane() % columns;
    const int key = at.key + lane() / columns * keys_each;
    const int64_t row = call.row(at.batch, at.head, query);
    const uint32_t mine = kept_bits<keys_each>(call.dropout, row * call.keys + key);
#pragma unroll
    for (int i = 0; i < columns / 4; ++i) {
      const int column = i / 2 * 8 + lane_column() + i % 2;
      uint32_t bits = __shfl_sync(all_lanes, mine, column);
      if constexpr (columns == 16)
        bits |= __shfl_sync(all_lanes, mine, column + columns) << keys_each;
      columns_[i] = bits >> lane_row();
    }
  }
  __device__ float factor(int i, int j) const {
    return columns_[i * 2 + j % 2] >> (j / 2 * 8) & 1 ? dropout_.kept : 0;
  }

 private:
  const Dropout& dropout_;
  uint32_t columns_[columns / 4];
};

}  // namespace booster::kernels::BOOSTER_VARIANT::tiles
