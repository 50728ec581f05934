// Attention on the matrix units, as in Dao, "FlashAttention-2" (2023): a block of 4 warps has 64
// queries, goes through the keys 64 at a time (32 for heads above 64), and keeps the sums relative
// to the best score so far in its fragments; no score reaches memory. While one tile of keys and
// values is computed, the next is on its way. Of the last tile, and of one that causality hides in
// part, a warp computes the parts of 16 keys that it sees.
//
// What limits it, by count: instructions. Of the some 350 that a warp needs for its 16 queries and
// 64 keys of a head of 64 features, 64 are products, which the matrix units of an H100 could do in
// half the time; 200 turn scores into weights, of which exponentials take a quarter; the others
// move operands. A tile of keys and values is read once per 64 queries, 64 FLOPs a byte, from the
// second-level cache. Dropout draws a number for each score, by 18 integer instructions: more than
// the rest.
#include "kernels/cuda/attention/tile_attention.h"
#include "kernels/cuda/attention/tile_scores.cuh"
#include "kernels/numbers/math.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace tiles {
namespace {

// What a thread's registers have room for, beside the sums.
template <int width>
constexpr int keys_at_once = width == 64 ? 64 : 32;
// Blocks that share a multiprocessor hide each other's waits: as many as can do with registers.
template <int width, bool plain>
constexpr int blocks_at_once = width == 64 && plain ? 3 : 2;

__device__ inline float largest_of_row(float mine) {
  for (int step = 1; step < 4; step *= 2)
    mine = ptx::larger(mine, __shfl_xor_sync(all_lanes, mine, step));
  return mine;
}
__device__ inline float sum_of_row(float mine) {
  for (int step = 1; step < 4; step *= 2) mine += __shfl_xor_sync(all_lanes, mine, step);
  return mine;
}

// What a warp knows of its queries. Of the lane's two: the best score so far, in units of log 2,
// and the sum of the probabilities of this lane's keys, relative to it.
template <int width>
struct Running {
  float best[2] = {-infinity, -infinity}, total[2] = {0, 0};
  Sums<width> sums;
};

// Turns scores times factor into weights relative to the best score so far, and shrinks earlier
// sums to it. A score that is nan is no best one, but makes its weight nan, and with it the sum.
template <int fragments, int width>
__device__ void weigh(float (&scores)[fragments][4], float factor, Running<width>& running) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int x = half * 2, y = x + 1;  // two sums and maxima at once wait less for each other
    float most_x = scores[0][x], most_y = scores[0][y];
#pragma unroll
    for (int i = 1; i < fragments; ++i) {
      most_x = ptx::larger(most_x, scores[i][x]);
      most_y = ptx::larger(most_y, scores[i][y]);
    }
    const float most = largest_of_row(ptx::larger(most_x, most_y));
    const float best = ptx::larger(running.best[half], most * factor);
    const float base = best == -infinity ? 0 : best;
    const float shrink = ptx::ex2_approx(running.best[half] - base);
    running.best[half] = best;
    float sum_x = 0, sum_y = 0;
#pragma unroll
    for (int i = 0; i < fragments; ++i) {
      sum_x += scores[i][x] = ptx::ex2_approx(scores[i][x] * factor - base);
      sum_y += scores[i][y] = ptx::ex2_approx(scores[i][y] * factor - base);
    }
    running.total[half] = running.total[half] * shrink + (sum_x + sum_y);
#pragma unroll
    for (int i = 0; i < width / 8; ++i) {
      running.sums[i][x] *= shrink;
      running.sums[i][y] *= shrink;
    }
  }
}

template <int columns>
__device__ void drop(Sums<columns>& weights, const Keeping<false, columns>& keep) {
#pragma unroll
  for (int i = 0; i < columns / 8; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) weights[i][j] = keep.has(i, j) ? weights[i][j] : 0;
}

// Adds up `columns` keys' values.
template <int columns, bool plain, class T, int width>
__device__ void add_keys(Running<width>& running, const LeftRows<T, width, true>& queries,
                         const T* keys, const T* values, const Call& call, const TilePlace& at) {
  Sums<columns> scores;
  clear(scores);
  add_row_products<columns>(scores, queries, keys);
  weigh(scores, finish_scores<false, plain>(scores, call, at), running);
  if constexpr (!plain)
    if (call.dropout.drops) drop(scores, Keeping<false, columns>(call, at));
  Left<columns> weights;
  round_to<T>(weights, scores);
  add_product<width, columns>(running.sums, weights, values);
}

// The two parts of the logarithm of a query's sum, each query by another lane.
template <int width>
__device__ void store_log_sums(const Running<width>& running, const float (&totals)[2],
                               const Call& call, const BlockPlace& place) {
  const int half = lane_column() / 2, query = place.warp_first() + lane_row() + half * 8;
  if (half > 1 || query >= call.queries) return;
  *call.log_sum_of(place.batch, place.head, query, 0) = half ? running.best[1] : running.best[0];
  *call.log_sum_of(place.batch, place.head, query, 1) =
      log_(half ? totals[1] : totals[0]) * float(log2_e);
}

template <class T, int width, bool plain>
__device__ void attend(const Call& call, int64_t block) {
  constexpr int tile_keys = keys_at_once<width>, tile_size = tile_keys * width;
  SHARED(uint4, memory, (block_rows * width + 4 * tile_size) / pack_size);
  T* const query_tile = reinterpret_cast<T*>(memory);
  const auto tile = [&](int which, int stage) {
    return query_tile + block_rows * width + (stage * 2 + which) * tile_size;
  };
  const BlockPlace place(call, block, call.queries);
  const auto loader = [&](const Tokens& tokens) {
    return TileLoader<T, width, plain>(tokens.template head<T, plain>(place.batch, place.head));
  };
  const TileLoader<T, width, plain> keys = loader(call.k), values = loader(call.v);
  const auto load = [&](int key, int stage) {
    keys.template load<tile_keys>(tile(0, stage), key);
    values.template load<tile_keys>(tile(1, stage), key);
  };
  loader(call.q).template load<block_rows>(query_tile, place.first);
  load(0, 0);
  LeftRows<T, width, true> queries(query_tile);
  Running<width> running;
  clear(running.sums);
  const int visible = call.visible_keys(place.first + block_rows);
  const int visible_to_warp =
      place.warp_has_tokens ? call.visible_keys(place.warp_first() + rows_per_warp) : 0;
  for (int key = 0, stage = 0; key < visible; key += tile_keys, stage = 1 - stage) {
    ptx::cp_async_wait_all();
    __syncthreads();  // the tiles are there, and the last ones no longer read
    if (key == 0) queries.load();
    if (key + tile_keys < visible) load(key + tile_keys, 1 - stage);
    for_each_part<tile_keys>(key, 0, visible_to_warp, [&](auto columns, int column) {
      const TilePlace at = {place.batch, place.head, place.warp_first(), key + column};
      add_keys<decltype(columns)::value, plain>(running, queries, tile(0, stage) + column * width,
                                                tile(1, stage) + column * width, call, at);
    });
  }
  if (visible == 0) {  // queries are on their way to where the rows go
    ptx::cp_async_wait_all();
    __syncthreads();
  }
  float totals[2], factor[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    totals[half] = sum_of_row(running.total[half]);
    factor[half] = totals[half] == 0 ? 0 : call.dropout.kept / totals[half];
  }
  store_log_sums(running, totals, call, place);
  store_rows<width>(call.out.template head<T, plain>(place.batch, place.head), place.first,
                    query_tile, running.sums, factor);
}

template <class T, int width, bool plain>
void forward(const Call& call) {
  for_each_block<blocks_at_once<width, plain>, threads>(
      BlockPlace::count(call, call.queries),
      [=] ON_DEVICE(int64_t block) { attend<T, width, plain>(call, block); });
}

}  // namespace
}  // namespace tiles

void tile_attention(const AttentionTensors& x, double scale, bool causal, double dropout,
                    RandomPosition position) {
  const tiles::Call call(x, scale, causal, dropout, position);
  tiles::visit_kinds(call, x.q.dtype, call.in_packs(), [&](auto kind) {
    using Kind = decltype(kind);
    tiles::forward<typename Kind::Number, Kind::width, Kind::plain>(call);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
