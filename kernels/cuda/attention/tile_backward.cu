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

  bool in_packs() const {
    return call.in_packs() && g.in_packs && dq.in_packs && dk.in_packs && dv.in_packs;
  }
  __device__ int padded_queries() const {
    return (call.queries + block_rows - 1) / block_rows * block_rows;
  }
  __device__ QueryNumbers* numbers_of(int batch, int head) const {
    return numbers + (int64_t{batch} * call.heads + head) * padded_queries();
  }
};

// A block's memory: its own 64 rows of two tensors, and the tiles of two others that pass, `step`
// rows each: two pairs, so that the next is on its way while one is computed, where they fit. With
// those pass the numbers of queries, if that is asked for and they fit.
template <class T, int width, int step, bool of_queries>
struct Memory {
  static constexpr int own_size = block_rows * width, step_size = step * width, most = 48 << 10;
  static constexpr int stages = (2 * own_size + 4 * step_size) * sizeof(T) <= most ? 2 : 1;
  static constexpr int tile_packs = (2 * own_size + 2 * step_size * stages) / pack_size;
  static constexpr int number_packs = step / 2 * stages;
  static constexpr bool has_numbers =
      of_queries && (tile_packs + number_packs) * sizeof(uint4) <= most;
  static constexpr int packs = tile_packs + (has_numbers ? number_packs : 0);
  T* all;

  __device__ T* own(int which) const { return all + which * own_size; }
  __device__ T* passing(int which, int stage) const {
    return all + 2 * own_size + (stage * 2 + which) * step_size;
  }
  __device__ QueryNumbers* numbers(int stage) const {
    return reinterpret_cast<QueryNumbers*>(all + tile_packs * pack_size) + stage * step;
  }
};

// Calls load(token, stage) for the tiles of two tensors that pass, and body(token, stage) once they
// are there. Before it, the block's own rows may be on their way, too: they are there when `begin`
// is called.
template <int stages, int step, class Load, class Begin, class Body>
__device__ void for_each_step(int from, int to, Load&& load, Begin&& begin, Body&& body) {
  if (from < to) load(from, 0);
  ptx::cp_async_wait_all();
  __syncthreads();
  begin();
  int stage = 0;
  for (int token = from; token < to; token += step) {
    const int next = token + step;
    if (stages == 2 && next < to) load(next, 1 - stage);
    body(token, stage);
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
template <class T, int width, bool whole>
__device__ float delta_of(const Head<T, whole>& g, const Head<T, whole>& out, int query) {
  constexpr int turns = width / pack_size / 4;
  uint4 left[turns], right[turns];  // all on their way before the first is needed
#pragma unroll
  for (int i = 0; i < turns; ++i) {
    const int pack = i * 4 + lane() % 4;
    const bool has = g.has(query, pack);
    left[i] = has ? g.load(query, pack) : uint4{0, 0, 0, 0};
    right[i] = has ? out.load(query, pack) : uint4{0, 0, 0, 0};
  }
  T a[turns * pack_size], b[turns * pack_size];
  __builtin_memcpy(a, static_cast<const void*>(left), sizeof left);
  __builtin_memcpy(b, static_cast<const void*>(right), sizeof right);
  float sum = 0;
#pragma unroll
  for (int j = 0; j < turns * pack_size; ++j) sum += to_float(a[j]) * to_float(b[j]);
  for (int step = 1; step < 4; step *= 2) sum += __shfl_xor_sync(all_lanes, sum, step);
  return sum;
}

// The numbers of the lane's two queries, which the other kernel finds in memory.
template <class T, int width, bool plain>
__device__ void find_numbers(QueryNumbers (&mine)[2], const Gradients& x, const BlockPlace& place) {
  const Head<T, plain> g = x.g.template head<T, plain>(place.batch, place.head);
  const Head<T, plain> out = x.call.out.template head<T, plain>(place.batch, place.head);
  float parts[2][2], delta[2];
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const int query = place.warp_first() + lane_row() + half * 8;
    for (int part = 0; part < 2; ++part)
      parts[half][part] = query < x.call.queries
                              ? *x.call.log_sum_of(place.batch, place.head, query, part)
                              : -infinity;
  }
#pragma unroll
  for (int half = 0; half < 2; ++half)
    delta[half] = delta_of<T, width>(g, out, place.warp_first() + lane_row() + half * 8);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const bool sees = parts[half][0] != -infinity;
    mine[half] = {sees ? parts[half][0] + parts[half][1] : infinity, sees ? delta[half] : 0};
    const int query = place.warp_first() + lane_row() + half * 8;
    if (lane_column() == 0) x.numbers_of(place.batch, place.head)[query] = mine[half];
  }
}

// The factor of each probability where none is dropped.
struct KeepingAll {
  __device__ float factor(int, int) const { return 1; }
};

// Turns scores times factor into probabilities after dropout, and products of g v into slopes of
// the loss by the scores. numbers_of(i, j) are those of the query of element j of fragment i.
template <int fragments, class Keep, class Numbers>
__device__ void find_slopes(float (&scores)[fragments][4], float (&products)[fragments][4],
                            float factor, const Keep& keep, Numbers&& numbers_of) {
#pragma unroll
  for (int i = 0; i < fragments; ++i)
#pragma unroll
    for (int j = 0; j < 4; ++j) {
      const QueryNumbers query = numbers_of(i, j);
      const float p = ptx::ex2_approx(scores[i][j] * factor - query.log_sum);
      const float kept = keep.factor(i, j);
      products[i][j] = p * (products[i][j] * kept - query.delta);
      scores[i][j] = p * kept;
    }
}

// From products of queries and keys, and of g and v, to probabilities and slopes.
template <bool across, bool plain, int fragments, class Numbers>
__device__ void finish_slopes(float (&scores)[fragments][4], float (&products)[fragments][4],
                              const Call& call, const TilePlace& at, Numbers&& numbers_of) {
  const float factor = finish_scores<across, plain>(scores, call, at);
  if (!plain && call.dropout.drops)
    find_slopes(scores, products, factor, Keeping<across, fragments * 8>(call, at), numbers_of);
  else
    find_slopes(scores, products, factor, KeepingAll{}, numbers_of);
}

template <class T, int width, bool plain>
__device__ void query_gradients(const Gradients& x, int64_t block) {
  const Call& call = x.call;
  using Tiles = Memory<T, width, key_step, false>;
  SHARED(uint4, shared, Tiles::packs);
  const Tiles memory = {reinterpret_cast<T*>(shared)};
  const BlockPlace place(call, block, call.queries);
  const auto loader = [&](const Tokens& tokens) {
    return TileLoader<T, width, plain>(tokens.template head<T, plain>(place.batch, place.head));
  };
  loader(call.q).template load<block_rows>(memory.own(0), place.first);
  loader(x.g).template load<block_rows>(memory.own(1), place.first);
  const TileLoader<T, width, plain> keys = loader(call.k), values = loader(call.v);
  LeftRows<T, width, width == 64> queries(memory.own(0)), gradients(memory.own(1));
  QueryNumbers numbers[2];
  Sums<width> sums;
  clear(sums);
  const int visible_to_warp =
      place.warp_has_tokens ? call.visible_keys(place.warp_first() + rows_per_warp) : 0;
  for_each_step<Tiles::stages, key_step>(
      0, call.visible_keys(place.first + block_rows),
      [&](int key, int stage) {
        keys.template load<key_step>(memory.passing(0, stage), key);
        values.template load<key_step>(memory.passing(1, stage), key);
        if (key == 0) find_numbers<T, width, plain>(numbers, x, place);
      },
      [&] {
        queries.load();
        gradients.load();
      },
      [&](int key, int stage) {
        for_each_part<key_step>(key, 0, visible_to_warp, [&](auto number, int column) {
          constexpr int columns = decltype(number)::value;
          const T* const some_keys = memory.passing(0, stage) + column * width;
          Sums<columns> scores, products;
          clear(scores);
          clear(products);
          add_row_products<columns>(scores, queries, some_keys);
          add_row_products<columns>(products, gradients, memory.passing(1, stage) + column * width);
          const TilePlace at = {place.batch, place.head, place.warp_first(), key + column};
          finish_slopes<false, plain>(scores, products, call, at,
                                      [&](int, int j) { return numbers[j / 2]; });
          Left<columns> slopes;
          round_to<T>(slopes, products);
          add_product<width, columns>(sums, slopes, some_keys);
        });
      });
  const Head<T, plain> dq = x.dq.template head<T, plain>(place.batch, place.head);
  store_rows<width>(dq, place.first, memory.own(0), sums, {call.scale, call.scale});
}

template <class T, int width, bool plain>
__device__ void key_gradients(const Gradients& x, int64_t block) {
  const Call& call = x.call;
  constexpr int step = query_step<width>;
  using Tiles = Memory<T, width, step, true>;
  SHARED(uint4, shared, Tiles::packs);
  const Tiles memory = {reinterpret_cast<T*>(shared)};
  const BlockPlace place(call, block, call.keys);
  const auto loader = [&](const Tokens& tokens) {
    return TileLoader<T, width, plain>(tokens.template head<T, plain>(place.batch, place.head));
  };
  loader(call.k).template load<block_rows>(memory.own(0), place.first);
  loader(call.v).template load<block_rows>(memory.own(1), place.first);
  const TileLoader<T, width, plain> all_queries = loader(call.q), all_gradients = loader(x.g);
  LeftRows<T, width, width == 64> keys(memory.own(0)), values(memory.own(1));
  const QueryNumbers* const all_numbers = x.numbers_of(place.batch, place.head);
  Sums<width> key_sums, value_sums;
  clear(key_sums);
  clear(value_sums);
  const int end = place.warp_has_tokens ? call.queries : 0;
  for_each_step<Tiles::stages, step>(
      call.causal ? place.first : 0, call.queries,
      [&](int query, int stage) {
        all_queries.template load<step>(memory.passing(0, stage), query);
        all_gradients.template load<step>(memory.passing(1, stage), query);
        const int mine = static_cast<int>(threadIdx.x) * 2;  // queries whose numbers are 16 bytes
        if (Tiles::has_numbers && mine < step)
          ptx::cp_async_16(memory.numbers(stage) + mine, all_numbers + query + mine,
                           query + mine < x.padded_queries() ? 16 : 0);
      },
      [&] {
        keys.load();
        values.load();
      },
      [&](int query, int stage) {
        const int first = call.causal ? place.warp_first() : 0;
        for_each_part<step>(query, first, end, [&](auto number, int column) {
          constexpr int columns = decltype(number)::value;
          const T* const queries = memory.passing(0, stage) + column * width;
          const T* const gradients = memory.passing(1, stage) + column * width;
          Sums<columns> scores, products;
          clear(scores);
          clear(products);
          add_row_products<columns>(scores, keys, queries);
          add_row_products<columns>(products, values, gradients);
          const TilePlace at = {place.batch, place.head, query + column, place.warp_first()};
          const QueryNumbers* const numbers =
              (Tiles::has_numbers ? memory.numbers(stage) : all_numbers + query) + column;
          uint4 words[columns / 8];
#pragma unroll
          for (int i = 0; i < columns / 8; ++i)
            words[i] = *reinterpret_cast<const uint4*>(numbers + i * 8 + lane_column());
          finish_slopes<true, plain>(scores, products, call, at, [&](int i, int j) {
            QueryNumbers two[2];
            __builtin_memcpy(two, static_cast<const void*>(&words[i]), sizeof two);
            return two[j % 2];
          });
          Left<columns> weights, slopes;
          round_to<T>(weights, scores);
          round_to<T>(slopes, products);
          add_product<width, columns>(value_sums, weights, gradients);
          add_product<width, columns>(key_sums, slopes, queries);
        });
      });
  const Head<T, plain> dk = x.dk.template head<T, plain>(place.batch, place.head);
  const Head<T, plain> dv = x.dv.template head<T, plain>(place.batch, place.head);
  store_rows<width>(dk, place.first, memory.own(0), key_sums, {call.scale, call.scale});
  store_rows<width>(dv, place.first, memory.own(1), value_sums, {1.0f, 1.0f});
}

template <class T, int width, bool plain>
void backward(const Gradients& x) {
  for_each_block<width == 64 ? 3 : 2, threads>(
      BlockPlace::count(x.call, x.call.queries),
      [=] ON_DEVICE(int64_t block) { query_gradients<T, width, plain>(x, block); });
  for_each_block<2, threads>(BlockPlace::count(x.call, x.call.keys), [=] ON_DEVICE(int64_t block) {
    key_gradients<T, width, plain>(x, block);
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
  visit_kinds(call, x.q.dtype, gradients.in_packs(), [&](auto kind) {
    using Kind = decltype(kind);
    backward<typename Kind::Number, Kind::width, Kind::plain>(gradients);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
