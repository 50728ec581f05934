// Attention on the matrix units, as in Dao, "FlashAttention-2" (2023): a block of 4 warps has 64
// queries, goes through the keys 64 at a time (32 for heads above 64), and keeps the sums relative
// to the best score so far in its fragments; no score reaches memory. While scores are computed,
// the tile's values are on their way; while these are added up, the next keys are.
//
// What limits it, by count: a tile of keys and values is read once per 64 queries, 64 FLOPs a byte,
// from the second-level cache. Each warp reads it from the block's memory for its 16 queries, 16
// FLOPs a byte: 2048 a cycle at its 128 bytes, which is all that the matrix units of an A100 do and
// half of an H100's. A score of a head of 64 takes a 16th of a cycle as exponential, and an 8th in
// products. Dropout draws a number for each score, by 18 integer instructions: more than the rest.
#include "kernels/cuda/attention/tile_attention.h"
#include "kernels/cuda/attention/tile_scores.cuh"
#include "kernels/numbers/math.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace tiles {
namespace {

// What a thread's registers have room for, beside the sums.
template <int width>
constexpr int keys_at_once = width == 64 ? 64 : 32;

// Of the lane's two queries: the best score so far and the probabilities' sum relative to it, of
// this lane's keys, in units of log 2.
struct Running {
  float best[2] = {-infinity, -infinity}, total[2] = {0, 0};
};

__device__ inline float largest_of_row(float mine) {
  for (int step = 1; step < 4; step *= 2) {
    const float other = __shfl_xor_sync(all_lanes, mine, step);
    mine = other > mine ? other : mine;
  }
  return mine;
}
__device__ inline float sum_of_row(float mine) {
  for (int step = 1; step < 4; step *= 2) mine += __shfl_xor_sync(all_lanes, mine, step);
  return mine;
}

// Turns scores into weights relative to the best score so far, and shrinks earlier sums to it. A
// score that is nan is no best one, but makes its weight nan, and with it the sum.
template <int fragments, int sum_fragments>
__device__ void weigh(float (&scores)[fragments][4], Running& running,
                      float (&sums)[sum_fragments][4]) {
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    float most = running.best[half];
#pragma unroll
    for (int i = 0; i < fragments * 2; ++i) {
      const float score = scores[i / 2][half * 2 + i % 2];
      most = score > most ? score : most;
    }
    most = largest_of_row(most);
    const float base = most == -infinity ? 0 : most;
    const float shrink = ptx::ex2_approx(running.best[half] - base);
    running.best[half] = most;
    float sum = 0;
#pragma unroll
    for (int i = 0; i < fragments * 2; ++i) {
      float& score = scores[i / 2][half * 2 + i % 2];
      score = ptx::ex2_approx(score - base);
      sum += score;
    }
    running.total[half] = running.total[half] * shrink + sum;
#pragma unroll
    for (int i = 0; i < sum_fragments * 2; ++i) sums[i / 2][half * 2 + i % 2] *= shrink;
  }
}

template <class T, int width, bool masked>
__device__ void attend(const Call& call, int64_t block) {
  constexpr int tile_keys = keys_at_once<width>, tile_size = tile_keys * width;
  SHARED(uint4, memory, (block_rows * width + 2 * tile_size) / pack_size);
  T* const query_tile = reinterpret_cast<T*>(memory);
  T *const key_tile = query_tile + block_rows * width, *const value_tile = key_tile + tile_size;
  const BlockPlace place(call, block, call.queries);
  const Head<T> keys = call.k.template head<T>(place.batch, place.head);
  const Head<T> values = call.v.template head<T>(place.batch, place.head);
  load_tile<width, block_rows>(query_tile, call.q.template head<T>(place.batch, place.head),
                               place.first);
  load_tile<width, tile_keys>(key_tile, keys, 0);
  LeftRows<T, width, true> queries(query_tile);
  Sums<width> sums;
  clear(sums);
  Running running;
  const int visible = call.visible_keys(place.first + block_rows);
  for (int key = 0; key < visible; key += tile_keys) {
    ptx::cp_async_wait_all();
    __syncthreads();  // keys are there, and earlier values no longer read
    if (key == 0) queries.load();
    load_tile<width, tile_keys>(value_tile, values, key);
    Sums<tile_keys> scores;
    clear(scores);
    if (place.warp_has_tokens) add_row_products<tile_keys>(scores, queries, key_tile);
    ptx::cp_async_wait_all();
    __syncthreads();  // values are there, and keys no longer read
    if (key + tile_keys < visible) load_tile<width, tile_keys>(key_tile, keys, key + tile_keys);
    if (!place.warp_has_tokens) continue;
    const TilePlace at = {place.batch, place.head, place.first, key};
    finish_scores<false, masked>(scores, call, at);
    weigh(scores, running, sums);
    const Keeping<false, tile_keys> keep(call, at);
#pragma unroll
    for (int i = 0; i < tile_keys / 8; ++i)
#pragma unroll
      for (int j = 0; j < 4; ++j) scores[i][j] = keep.has(i, j) ? scores[i][j] : 0;
    Left<tile_keys> weights;
    round_to<T>(weights, scores);
    add_product<width, tile_keys>(sums, weights, value_tile);
  }
  if (visible == 0) {  // queries are on their way to where the rows go
    ptx::cp_async_wait_all();
    __syncthreads();
  }
  float factor[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const float total = sum_of_row(running.total[half]);
    factor[half] = total == 0 ? 0 : call.dropout.kept / total;
    const int query = place.first + warp_row() + lane_row() + half * 8;
    if (lane_column() != 0 || query >= call.queries) continue;
    *call.log_sum_of(place.batch, place.head, query, 0) = running.best[half];
    *call.log_sum_of(place.batch, place.head, query, 1) = log_(total) * float(log2_e);
  }
  store_rows<width>(call.out.template head<T>(place.batch, place.head), place.first, query_tile,
                    sums, factor);
}

template <class T, int width, bool masked>
void forward(const Call& call) {
  for_each_block<1, threads>(BlockPlace::count(call, call.queries), [=] ON_DEVICE(int64_t block) {
    attend<T, width, masked>(call, block);
  });
}

}  // namespace
}  // namespace tiles

void tile_attention(const AttentionTensors& x, double scale, bool causal, double dropout,
                    RandomPosition position) {
  const tiles::Call call(x, scale, causal, dropout, position);
  tiles::visit_kinds(x, [&](auto kind) {
    using Kind = decltype(kind);
    tiles::forward<typename Kind::Number, Kind::width, Kind::masked>(call);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
