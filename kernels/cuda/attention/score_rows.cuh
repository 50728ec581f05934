// Rows of scores between attention's products. A warp has the row of a query with up to 1024 keys;
// a block has a longer one. Rows are consecutive and begin at multiples of 16 bytes; each thread
// moves quads of neighbouring scores.
#pragma once

#include "kernels/attention/log_2.h"
#include "kernels/cuda/attention/choice.h"
#include "kernels/cuda/attention/head_chunks.h"
#include "kernels/cuda/element_group.cuh"
#include "kernels/cuda/rows/row_teams.cuh"
#include "kernels/numbers/math.h"
#include "kernels/numbers/random.h"

namespace booster::kernels::BOOSTER_VARIANT {

// The team of a row, and the quads that each thread holds at a time. A warp holds a whole row. A
// block reads a longer row twice.
template <class Team_, int quads_>
struct RowShape {
  using Team = Team_;
  static constexpr int quads = quads_;
  static constexpr int64_t chunk_size = int64_t{Team::size} * quads * quad;

  static __device__ int64_t chunks(int64_t keys) {
    return Team::size == warp_size ? 1 : (keys + chunk_size - 1) / chunk_size;
  }
  // Returns a thread's share of a chunk, of a row that ends at key `end`.
  static __device__ ElementGroup group(int64_t chunk, int which, int64_t end) {
    // In this order `which` adds a constant to an address, so quads need no separate addresses.
    const int64_t first = chunk * chunk_size + Team::rank() * quad;
    const int64_t left = end - first - which * Team::size * quad;
    const int count = left >= quad ? quad : left > 0 ? static_cast<int>(left) : 0;
    return {first + which * Team::size * quad, count};
  }
};

// Calls f with the shape for rows of this many keys. Functions of f64 need many registers.
template <class C, class F>
void visit_row_shapes(int64_t keys, F&& f) {
  if (keys <= 256) return f(RowShape<WarpTeam, 2>());
  if constexpr (sizeof(C) == 4) {
    if (keys <= 512) return f(RowShape<WarpTeam, 4>());
    if (keys <= 1024) return f(RowShape<WarpTeam, 8>());
    f(RowShape<BlockTeam, 8>());
  } else {
    f(RowShape<BlockTeam, 2>());
  }
}

// The terms added to scores: floating values, or -infinity where a boolean is false.
struct ScoreMask {
  explicit ScoreMask(const View& mask) : data(mask.data), dtype(mask.dtype) {
    // Sizes align from the right; 1, or a missing dimension, is broadcast.
    for (int i = 0; i < mask.ndim; ++i)
      if (mask.shape[i] > 1) strides[i + 4 - mask.ndim] = mask.strides[i];
  }
  const void* data;
  DType dtype;
  int64_t strides[4] = {};  // of batch, head, query and key
};

// The parameters shared by all scores of a call.
template <class C>
struct Scores {
  Scores(const AttentionTensors& x, double scale, bool causal, double dropout,
         RandomPosition position)
      : heads(x.q.shape[1]),
        queries(x.q.shape[2]),
        keys(x.k.shape[2]),
        mask(x.mask),
        log_sum(x.log_sum),
        scale(C(scale)),
        causal(causal),
        drops(dropout > 0),
        threshold(drop_threshold(dropout)),
        kept(dropout < 1 ? C(1 / (1 - dropout)) : C(0)),
        position(position) {}

  int64_t heads, queries, keys;
  ScoreMask mask;
  View log_sum;
  C scale;
  bool causal, drops;
  uint32_t threshold;
  C kept;
  RandomPosition position;
};

// A query, and the position of its scores in the current part.
template <class C>
struct ScoreRow {
  __device__ ScoreRow(const Scores<C>& x, HeadRange heads, QueryRange range, int64_t index) {
    const int64_t head_of_part = quotient(index, range.count);
    const int64_t head_of_all = heads.first + head_of_part;
    batch = quotient(head_of_all, x.heads);
    head = head_of_all - batch * x.heads;
    query = range.first + index - head_of_part * range.count;
    begin = index * ((range.keys + quad - 1) / quad * quad);
    visible = x.causal && query + 1 < range.keys ? query + 1 : range.keys;
    number = (head_of_all * x.queries + query) * x.keys;
  }
  // Returns the first or second part of log_sum.
  __device__ C load_log_sum(const View& log_sum, int part) const {
    C value = 0;
    visit_floating(log_sum.dtype, [&](auto* type) {
      value = load<C>(static_cast<decltype(type)>(log_sum.data) + element_of(log_sum, part));
    });
    return value;
  }
  __device__ void store_log_sum(const View& log_sum, int part, C value) const {
    visit_floating(log_sum.dtype, [&](auto* type) {
      store(static_cast<decltype(type)>(log_sum.data) + element_of(log_sum, part), value);
    });
  }

  int64_t batch, head, query;
  int64_t begin;    // of the first score
  int64_t visible;  // keys; causality hides the later ones
  int64_t number;   // of the first key's random number

 private:
  __device__ int64_t element_of(const View& log_sum, int part) const {
    return batch * log_sum.strides[0] + head * log_sum.strides[1] + query * log_sum.strides[2] +
           part * log_sum.strides[3];
  }
};

template <class C>
__device__ void add_mask(C (&score)[quad], const ScoreMask& mask, const ScoreRow<C>& row,
                         ElementGroup group) {
  const int64_t first = row.batch * mask.strides[0] + row.head * mask.strides[1] +
                        row.query * mask.strides[2] + group.first * mask.strides[3];
  C term[quad] = {};
  visit(mask.dtype, [&]<class T>(T*) {
    const auto* p = static_cast<const T*>(mask.data) + first;
#pragma unroll
    for (int i = 0; i < quad; ++i)
      if (i < group.count) term[i] = load<C>(p + i * mask.strides[3]);
  });
#pragma unroll
  for (int i = 0; i < quad; ++i) {
    const C truth = term[i] != C(0) ? C(0) : -C(__builtin_inf());
    score[i] += mask.dtype == DType::boolean ? truth : in_log_2(term[i]);
  }
}

// Loads a thread's scores of a chunk of a row, from the products of queries and keys: in units of
// log 2, -infinity if the key is hidden or missing.
template <class Shape, class C>
__device__ void load_scores(C (&score)[Shape::quads][quad], const C* products, const Scores<C>& x,
                            const ScoreRow<C>& row, int64_t chunk) {
  const auto group = [&](int which) { return Shape::group(chunk, which, row.visible); };
#pragma unroll
  for (int q = 0; q < Shape::quads; ++q) {
#pragma unroll
    for (int i = 0; i < quad; ++i) score[q][i] = -C(__builtin_inf());
    read_group(score[q], products + row.begin, group(q));
  }
  const C factor = x.scale * C(log2_e);
#pragma unroll
  for (int q = 0; q < Shape::quads; ++q) {
#pragma unroll
    for (int i = 0; i < quad; ++i)
      if (i < group(q).count) score[q][i] *= factor;
    if (x.mask.data) add_mask(score[q], x.mask, row, group(q));
  }
}

template <class C>
__device__ C power_of_2(C x) {
  return exp_(x * C(ln_2));
}

inline constexpr uint32_t whole_quad = (1 << quad) - 1;

// Sets bit i of the result if dropout keeps the probability of key `key` + i. Each has its own
// random number; a random block has four.
template <class C>
__device__ uint32_t kept_of_quad(const Scores<C>& x, const ScoreRow<C>& row, int64_t key) {
  if (!x.drops) return whole_quad;
  const auto first = static_cast<uint64_t>(row.number + key);
  const auto bits = [&](uint64_t block) {
    const Philox numbers = random_block(x.position, block);
    uint32_t kept = 0;
#pragma unroll
    for (int i = 0; i < 4; ++i) kept |= uint32_t(numbers.word[i] >= x.threshold) << i;
    return kept;
  };
  uint32_t kept = bits(first / 4);
  if (first % 4 != 0) kept |= bits(first / 4 + 1) << 4;
  return kept >> first % 4 & whole_quad;
}

}  // namespace booster::kernels::BOOSTER_VARIANT
