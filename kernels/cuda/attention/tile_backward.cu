// Gradients of attention on the matrix units, by the formulae of kernels/attention/backward.cpp in
// two kernels without a sum that blocks share: the first has 64 queries to a block, goes through
// the keys 32 at a time, and computes dq; the second has 64 keys, goes through the queries, 32 or
// 16 at a time, and computes dk and dv from scores that lie across, so that a warp's fragments of
// them are the left operand of both products. Each recomputes the scores: 7 products of tiles
// for 5.
//
// Products take 16 FLOPs for a byte of the block's memory, as in tile_forward.cu. For heads above
// 64 a thread has no registers to keep its own rows, and it is 12 in the first kernel, 11 in the
// second.
#include "kernels/cuda/attention/tile_attention.h"
#include "kernels/cuda/attention/tile_scores.cuh"
#include "kernels/workspace.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace tiles {
namespace {

// Tokens that a block goes through at a time: as many as a thread has registers for.
constexpr int key_step = 32;
template <int width>
constexpr int query_step = width == 64 ? 32 : 16;

// Of a query: the logarithm (of base 2) of its sum, infinity for one that sees nothing or is none,
// whose probabilities so become 0; and the sum of g times out. In one number, for want of
// registers, the logarithm of how many keys there are is lost beside scores of -1e9: where a mask's
// terms hide all keys so, the probabilities are 1 each, as in PyTorch.
struct QueryNumbers {
  float log_sum, delta;
};

struct Gradients {
  Call call;
  Tokens g, dq, dk, dv;
  QueryNumbers* numbers;  // of each head's queries, up to a whole block

  __device__ QueryNumbers* numbers_of(int64_t batch, int64_t head) const {
    const int64_t padded = (call.queries + block_rows - 1) / block_rows * block_rows;
    return numbers + (batch * call.heads + head) * padded;
  }
};

// A block's memory: its own 64 rows of two tensors, and the tiles of two others that pass, `step`
// rows each: two pairs, so that the next is on its way while one is computed, where they fit.
template <class T, int width, int step>
struct Memory {
  static constexpr int own_size = block_rows * width, step_size = step * width;
  static constexpr int stages = (2 * own_size + 4 * step_size) * sizeof(T) <= 48 << 10 ? 2 : 1;
  static constexpr int packs = (2 * own_size + 2 * step_size * stages) / pack_size;
  T* all;

  __device__ T* own(int which) const { return all + which * own_size; }
  __device__ T* passing(int which, int stage) const {
    return all + 2 * own_size + (stage * 2 + which) * step_size;
  }
};

// Calls body(token, first tile, second tile) for the tiles of two tensors that pass. Before it, the
// block's own rows may be on their way, too: they are there when `begin` is called.
template <class T, int width, int step, class Begin, class Body>
__device__ void for_each_step(const Memory<T, width, step>& memory, const Head<T>& first,
                              const Head<T>& second, int from, int to, Begin&& begin, Body&& body) {
  constexpr int stages = Memory<T, width, step>::stages;
  const auto load = [&](int token, int stage) {
    load_tile<width, step>(memory.passing(0, stage), first, token);
    load_tile<width, step>(memory.passing(1, stage), second, token);
  };
  if (from < to) load(from, 0);
  ptx::cp_async_wait_all();
  __syncthreads();
  begin();
  int stage = 0;
  for (int token = from; token < to; token += step) {
    const int next = token + step;
    if (stages == 2 && next < to) load(next, 1 - stage);
    body(token, memory.passing(0, stage), memory.passing(1, stage));
    if (next >= to) return;
    if (stages == 1) {
      __syncthreads();  // the tiles are no longer read
      load(next, 0);
    }
    ptx::cp_async_wait_all();
    __syncthreads();
    stage = (stage + 1) % stages;
  }
}

// The sum of g times out of a query, by the four lanes of its row.
template <class T, int width>
__device__ float delta_of(const Head<T>& g, const Head<T>& out, int query) {
  float sum = 0;
#pragma unroll 1
  for (int i = 0; i < width / pack_size / 4; ++i) {
    const int pack = i * 4 + lane() % 4;
    if (!g.has(query, pack)) continue;
    const uint4 left = g.load(query, pack), right = out.load(query, pack);
    T a[pack_size], b[pack_size];
    __builtin_memcpy(a, static_cast<const void*>(&left), sizeof left);
    __builtin_memcpy(b, static_cast<const void*>(&right), sizeof right);
#pragma unroll
    for (int j = 0; j < pack_size; ++j) sum += to_float(a[j]) * to_float(b[j]);
  }
  for (int step = 1; step < 4; step *= 2) sum += __shfl_xor_sync(all_lanes, sum, step);
  return sum;
}

// The numbers of the lane's two queries, which the other kernel finds in memory.
template <class T, int width>
__device__ void find_numbers(QueryNumbers (&mine)[2], const Gradients& x, const BlockPlace& place) {
  const Head<T> g = x.g.template head<T>(place.batch, place.head);
  const Head<T> out = x.call.out.template head<T>(place.batch, place.head);
  for (int half = 0; half < 2; ++half) {
    const int query = place.first + warp_row() + lane_row() + half * 8;
    const float delta = delta_of<T, width>(g, out, query);
    const auto part = [&](int which) {
      return query < x.call.queries ? *x.call.log_sum_of(place.batch, place.head, query, which)
                                    : -infinity;
    };
    const bool sees = part(0) != -infinity;
    mine[half] = {sees ? part(0) + part(1) : infinity, sees ? delta : 0};
    if (lane_column() == 0) x.numbers_of(place.batch, place.head)[query] = mine[half];
  }
}

// The probability of a score and the slope of the loss by that score, of which the probability
// after dropout takes the score's place, and the slope that of the product g v.
__device__ inline void slope(float& score, float& product, const QueryNumbers& query, float keep) {
  const float p = ptx::ex2_approx(score - query.log_sum);
  product = p * (product * keep - query.delta);
  score = p * keep;
}

template <class T, int width, bool masked>
__device__ void query_gradients(const Gradients& x, int64_t block) {
  const Call& call = x.call;
  SHARED(uint4, shared, (Memory<T, width, key_step>::packs));
  const Memory<T, width, key_step> memory = {reinterpret_cast<T*>(shared)};
  const BlockPlace place(call, block, call.queries);
  load_tile<width, block_rows>(memory.own(0), call.q.template head<T>(place.batch, place.head),
                               place.first);
  load_tile<width, block_rows>(memory.own(1), x.g.template head<T>(place.batch, place.head),
                               place.first);
  LeftRows<T, width, width == 64> queries(memory.own(0)), gradients(memory.own(1));
  QueryNumbers numbers[2];
  find_numbers<T, width>(numbers, x, place);
  Sums<width> sums;
  clear(sums);
  for_each_step(
      memory, call.k.template head<T>(place.batch, place.head),
      call.v.template head<T>(place.batch, place.head), 0,
      call.visible_keys(place.first + block_rows),
      [&] {
        queries.load();
        gradients.load();
      },
      [&](int key, const T* keys, const T* values) {
        if (!place.warp_has_tokens) return;
        const TilePlace at = {place.batch, place.head, place.first, key};
        Sums<key_step> scores, products;
        clear(scores);
        clear(products);
        add_row_products<key_step>(scores, queries, keys);
        add_row_products<key_step>(products, gradients, values);
        finish_scores<false, masked>(scores, call, at);
        const Keeping<false, key_step> keep(call, at);
#pragma unroll
        for (int i = 0; i < key_step / 8; ++i)
#pragma unroll
          for (int j = 0; j < 4; ++j)
            slope(scores[i][j], products[i][j], numbers[j / 2], keep.factor(i, j));
        Left<key_step> slopes;
        round_to<T>(slopes, products);
        add_product<width, key_step>(sums, slopes, keys);
      });
  store_rows<width>(x.dq.template head<T>(place.batch, place.head), place.first, memory.own(0),
                    sums, {call.scale, call.scale});
}

template <class T, int width, bool masked>
__device__ void key_gradients(const Gradients& x, int64_t block) {
  const Call& call = x.call;
  constexpr int step = query_step<width>;
  SHARED(uint4, shared, (Memory<T, width, step>::packs));
  const Memory<T, width, step> memory = {reinterpret_cast<T*>(shared)};
  const BlockPlace place(call, block, call.keys);
  load_tile<width, block_rows>(memory.own(0), call.k.template head<T>(place.batch, place.head),
                               place.first);
  load_tile<width, block_rows>(memory.own(1), call.v.template head<T>(place.batch, place.head),
                               place.first);
  LeftRows<T, width, width == 64> keys(memory.own(0)), values(memory.own(1));
  const QueryNumbers* numbers = x.numbers_of(place.batch, place.head);
  Sums<width> key_sums, value_sums;
  clear(key_sums);
  clear(value_sums);
  for_each_step(
      memory, call.q.template head<T>(place.batch, place.head),
      x.g.template head<T>(place.batch, place.head), call.causal ? place.first : 0, call.queries,
      [&] {
        keys.load();
        values.load();
      },
      [&](int query, const T* queries, const T* gradients) {
        if (!place.warp_has_tokens) return;
        const TilePlace at = {place.batch, place.head, query, place.first};
        Sums<step> scores, products;
        clear(scores);
        clear(products);
        add_row_products<step>(scores, keys, queries);
        add_row_products<step>(products, values, gradients);
        finish_scores<true, masked>(scores, call, at);
        const Keeping<true, step> keep(call, at);
#pragma unroll
        for (int i = 0; i < step / 8; ++i) {
          const uint4 words =
              *reinterpret_cast<const uint4*>(numbers + query + i * 8 + lane_column());
          QueryNumbers two[2];
          __builtin_memcpy(two, static_cast<const void*>(&words), sizeof two);
#pragma unroll
          for (int j = 0; j < 4; ++j)
            slope(scores[i][j], products[i][j], two[j % 2], keep.factor(i, j));
        }
        Left<step> weights, slopes;
        round_to<T>(weights, scores);
        round_to<T>(slopes, products);
        add_product<width, step>(value_sums, weights, gradients);
        add_product<width, step>(key_sums, slopes, queries);
      });
  store_rows<width>(x.dk.template head<T>(place.batch, place.head), place.first, memory.own(0),
                    key_sums, {call.scale, call.scale});
  store_rows<width>(x.dv.template head<T>(place.batch, place.head), place.first, memory.own(1),
                    value_sums, {1.0f, 1.0f});
}

template <class T, int width, bool masked>
void backward(const Gradients& x) {
  for_each_block<1, threads>(
      BlockPlace::count(x.call, x.call.queries),
      [=] ON_DEVICE(int64_t block) { query_gradients<T, width, masked>(x, block); });
  for_each_block<1, threads>(BlockPlace::count(x.call, x.call.keys), [=] ON_DEVICE(int64_t block) {
    key_gradients<T, width, masked>(x, block);
  });
}

}  // namespace
}  // namespace tiles

void tile_attention_backward(const AttentionTensors& x, double scale, bool causal, double dropout,
                             RandomPosition position) {
  using namespace tiles;
  const Call call(x, scale, causal, dropout, position);
  const int64_t count = BlockPlace::count(call, call.queries) * block_rows;
  const Workspace<QueryNumbers> numbers(count + 1);
  const Gradients gradients = {call, x.g, x.dq, x.dk, x.dv, numbers.data()};
  visit_kinds(x, [&](auto kind) {
    using Kind = decltype(kind);
    backward<typename Kind::Number, Kind::width, Kind::masked>(gradients);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
