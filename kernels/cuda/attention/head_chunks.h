// The partition of attention by products, which keeps the intermediate scores and copies of tokens
// small. It cuts by heads, and by queries if one head has too many scores. It depends only on
// sizes, so that sums do not depend on the GPU.
#pragma once

#include "kernels/arguments/view.h"

#include <algorithm>

namespace booster::kernels::cuda {

// Maximum of bytes of a part's scores, or of its scores and copies if it has several heads. The
// backward pass has two values for each score: 128 MB in total. A smaller limit would suit the
// second-level cache. But then a product (queries, keys) x (keys, 64) of a part with long rows
// would not occupy a whole GPU.
#ifdef BOOSTER_ATTENTION_BYTES  // little, so that tests have several parts
inline constexpr int64_t most_score_bytes = BOOSTER_ATTENTION_BYTES;
#else
inline constexpr int64_t most_score_bytes = int64_t{64} << 20;
#endif

// Rows of matrices begin at multiples of this many elements, which one access moves.
inline constexpr int64_t row_alignment = 4;
inline int64_t aligned_row(int64_t columns) {
  return (columns + row_alignment - 1) / row_alignment * row_alignment;
}

// Heads of the whole batch, counted item by item.
struct HeadRange {
  int64_t first, count;
};
// Queries of a head, the number of their keys (from the first on), and whether they begin the sums
// over queries or add to them.
struct QueryRange {
  int64_t first, count, keys;
  bool begins_sums;
};

struct HeadChunks {
  HeadChunks(const View& q, const View& k, int64_t bytes_of_number);

  // Chunks are either some heads of one batch item, or all heads of several. If the library can
  // take those heads of a tensor as one batch of matrices, no copy is needed.
  template <class Body>
  void for_each_chunk(Body&& body) const;
  // Goes from the last queries to the first, so that a sum over queries begins with a range that
  // has all keys. There is always at least one range, which may be empty.
  template <class Body>
  void for_each_query_range(bool causal, Body&& body) const;

  bool has_one_batch_item() const { return heads_at_once <= heads; }
  int64_t most_scores() const { return heads_at_once * queries_at_once * aligned_row(keys); }

  int64_t batches, heads, queries, keys, features;
  int64_t heads_at_once, queries_at_once;
};

// Returns the size of equal parts of n: the fewest parts with at most `most` each.
inline int64_t equal_part(int64_t n, int64_t most) {
  const int64_t parts = std::max<int64_t>(1, (n + most - 1) / most);
  return (n + parts - 1) / parts;
}

// Returns a multiple of the products' tile, unless it is less than a tile.
inline int64_t queries_of_part(int64_t queries, int64_t most) {
  constexpr int64_t tile = 64;
  if (most < tile || queries <= most) return equal_part(queries, std::max<int64_t>(1, most));
  const int64_t tiles = (queries + tile - 1) / tile;
  return equal_part(tiles, most / tile) * tile;
}

inline HeadChunks::HeadChunks(const View& q, const View& k, int64_t bytes_of_number)
    : batches(q.shape[0]),
      heads(q.shape[1]),
      queries(q.shape[2]),
      keys(k.shape[2]),
      features(q.shape[3]) {
  const int64_t numbers = most_score_bytes / bytes_of_number, row = aligned_row(keys);
  // Forward: copies of q, k, v and out. Backward: twice these copies and twice the scores.
  const int64_t of_head = queries * row + 2 * (queries + keys) * aligned_row(features);
  const int64_t most = std::max<int64_t>(1, numbers / std::max<int64_t>(1, of_head));
  const int64_t some_heads = equal_part(heads, most);
  heads_at_once =
      most < heads ? some_heads : heads * equal_part(batches, most / std::max<int64_t>(1, heads));
  queries_at_once = queries_of_part(queries, numbers / std::max<int64_t>(1, row));
}

template <class Body>
void HeadChunks::for_each_chunk(Body&& body) const {
  const int64_t all = batches * heads;
  for (int64_t first = 0, count; first < all; first += count) {
    const int64_t end = has_one_batch_item() ? (first / heads + 1) * heads : all;
    count = std::min(heads_at_once, end - first);
    body(HeadRange{first, count});
  }
}

template <class Body>
void HeadChunks::for_each_query_range(bool causal, Body&& body) const {
  int64_t end = queries;
  do {
    const int64_t first = queries ? (end - 1) / queries_at_once * queries_at_once : 0;
    const bool begins_sums = end == queries;
    const int64_t seen = causal && !begins_sums ? std::min(keys, end) : keys;
    body(QueryRange{first, end - first, seen, begins_sums});
    end = first;
  } while (end > 0);
}

}  // namespace booster::kernels::cuda
