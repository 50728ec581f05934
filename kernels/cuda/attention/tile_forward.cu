// Attention on the matrix units, as in Dao, "FlashAttention-2" (2023). A block has 64 queries, 16
// per warp, or 112 if that leaves fewer rows empty (197 tokens are 13 times 16). It processes the
// keys 64 at a time (32 for heads above 64). It keeps the sums relative to the best score so far in
// its fragments; no score reaches memory. The next tile of keys and values loads during the
// computation of one. In the last tile, and in a tile that causality partly hides, a warp computes
// only the visible parts of 16 keys.
//
// The limit, by count, is instructions. A warp needs some 400 for its 16 queries and 64 keys of a
// head of 64:
// - 64 are products, which take half as long on the matrix units of an H100;
// - 200 convert scores to weights, a quarter of them exponentials;
// - the others move operands.
// Each warp reads a tile from the block's memory for its 16 queries: 16 FLOPs per byte. At 128
// bytes per cycle that is 2048 FLOPs per cycle, half of the units' rate on an H100. A block reads a
// tile once from the second-level cache: 64 or 112 FLOPs per byte. Dropout draws a number for each
// score, by 18 integer instructions: more than everything else.
#include "kernels/cuda/attention/tile_attention.h"
#include "kernels/cuda/attention/tile_scores.cuh"
#include "kernels/numbers/math.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace tiles {
namespace {

// Keys at a time, limited by a thread's registers besides the sums.
template <int width>
constexpr int keys_at_once = width == 64 ? 64 : 32;
// Blocks per multiprocessor, which hide each other's waits: as many as the registers allow.
template <class Kind>
constexpr int blocks_at_once = Kind::width == 64 && Kind::plain&& Kind::warps == some_warps ? 3 : 2;

__device__ inline float largest_of_row(float mine) {
  for (int step = 1; step < 4; step *= 2)
    mine = ptx::larger(mine, __shfl_xor_sync(all_lanes, mine, step));
  return mine;
}
__device__ inline float sum_of_row(float mine) {
  for (int step = 1; step < 4; step *= 2) mine += __shfl_xor_sync(all_lanes, mine, step);
  return mine;
}

// A warp's state of its queries. For each of the lane's two queries, it has the best score so far,
// in units of log 2. It also has the sum of the probabilities of this lane's keys, relative to that
// score.
template <int width>
struct Running {
  float best[2] = {-infinity, -infinity}, total[2] = {0, 0};
  Sums<width> sums;
};

// Converts scores times factor to weights relative to the best score so far, and scales earlier
// sums down accordingly. A nan score is never the best, but its weight and the sum become nan.
template <int fragments, int width>
__device__ void weigh(float (&scores)[fragments][4], float factor, Running<width>& running) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int x = half * 2, y = x + 1;  // two sums and maxima in parallel wait less for each other
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

// Adds the values of `columns` keys.
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

// Stores the two parts of the logarithm of each query's sum, by a different lane per query.
template <int warps, int width>
__device__ void store_log_sums(const Running<width>& running, const float (&totals)[2],
                               const Call& call, const BlockPlace<warps>& place) {
  const int half = lane_column() / 2, query = place.warp_first() + lane_row() + half * 8;
  if (half > 1 || query >= call.queries) return;
  *call.log_sum_of(place.batch, place.head, query, 0) = half ? running.best[1] : running.best[0];
  *call.log_sum_of(place.batch, place.head, query, 1) =
      log_(half ? totals[1] : totals[0]) * float(log2_e);
}

template <class Kind>
__device__ void attend(const Call& call, int64_t block) {
  using T = typename Kind::Number;
  using Place = BlockPlace<Kind::warps>;
  constexpr bool plain = Kind::plain;
  constexpr int width = Kind::width, tile_keys = keys_at_once<width>, tile_size = tile_keys * width;
  SHARED(uint4, memory, (Place::rows * width + 4 * tile_size) / pack_size);
  T* const query_tile = reinterpret_cast<T*>(memory);
  // The key tile of a stage; its values follow it.
  const auto key_tile = [&](int stage) {
    return query_tile + Place::rows * width + stage * 2 * tile_size;
  };
  const Place place(call, block, call.queries);
  const auto head = [&](const Tokens& tokens) {
    return tokens.template head<T, plain>(place.batch, place.head);
  };
  TileLoader<Kind::warps, width, 1, T, plain>({head(call.q)}, place.first)
      .template load<Place::rows>(query_tile);
  TileLoader<Kind::warps, width, 2, T, plain> loader({head(call.k), head(call.v)}, 0);
  LeftRows<T, width, true> queries(query_tile);
  Running<width> running;
  clear(running.sums);
  const int visible_to_warp =
      place.warp_has_tokens ? call.visible_keys(place.warp_first() + rows_per_warp) : 0;
  for_each_step<2, tile_keys>(
      0, call.visible_keys(place.first + Place::rows),
      [&](int stage) { loader.template load<tile_keys>(key_tile(stage)); }, [&] { queries.load(); },
      [&](int key, int stage) {
        for_each_part<tile_keys>(key, 0, visible_to_warp, [&](auto columns, int column) {
          const T* const keys = key_tile(stage) + column * width;
          const TilePlace at = {place.batch, place.head, place.warp_first(), key + column};
          add_keys<decltype(columns)::value, plain>(running, queries, keys, keys + tile_size, call,
                                                    at);
        });
      });
  float totals[2], factor[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    totals[half] = sum_of_row(running.total[half]);
    factor[half] = totals[half] == 0 ? 0 : call.dropout.kept / totals[half];
  }
  store_log_sums(running, totals, call, place);
  store_rows<width>(head(call.out), place.first, query_tile, running.sums, factor);
}

template <class Kind>
void forward(const Call& call) {
  for_each_block<blocks_at_once<Kind>, Kind::warps * warp_size>(
      BlockPlace<Kind::warps>::count(call, call.queries),
      [=] ON_DEVICE(int64_t block) { attend<Kind>(call, block); });
}

}  // namespace
}  // namespace tiles

void tile_attention(const AttentionTensors& x, double scale, bool causal, double dropout,
                    RandomPosition position) {
  const tiles::Call call(x, scale, causal, dropout, position);
  tiles::visit_kinds<true>(call, x.q.dtype, call.in_packs(), call.queries,
                           [&](auto kind) { tiles::forward<decltype(kind)>(call); });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
