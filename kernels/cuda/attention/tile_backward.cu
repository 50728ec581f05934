// Gradients of attention on the matrix units, by the formulae of kernels/attention/backward.cpp, in
// two kernels in which blocks share no sum.
// - The first has 64 queries to a block, goes through the keys 32 at a time, and computes dq. (With
//   112 queries an H100 took 83 us a layer instead of 77.)
// - The second has 64 keys to a block, goes through the queries, 32 or 16 at a time, and computes
//   dk and dv. Its scores are transposed, so that a warp's fragments of them are the left operand
//   of both products.
// Each recomputes the scores: 7 products of tiles instead of 5.
//
// Products do 16 FLOPs per byte of the block's memory, as in tile_forward.cu. For heads above 64 a
// thread cannot keep its rows in registers; then it is 12 in the first kernel, and 11 in the
// second.
#include "kernels/cuda/attention/tile_attention.h"
#include "kernels/cuda/attention/tile_scores.cuh"
#include "kernels/launch/workspace.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace tiles {
namespace {

// Tokens that a block handles at a time, limited by a thread's registers.
constexpr int key_step = 32;
template <int width>
constexpr int query_step = width == 64 ? 32 : 16;

// Values of a query. log_sum is the logarithm (of base 2) of its sum. It is infinity for a missing
// query or one without visible keys, so that the probabilities become 0. delta is the sum of g
// times out.
//
// There are no registers for log_sum's two parts. A single value loses the logarithm of the number
// of keys next to scores of -1e9. If mask terms hide all keys in this way, each probability is 1,
// as in PyTorch.
struct QueryNumbers {
  float log_sum, delta;
};

struct Gradients {
  Call call;
  Tokens g, dq, dk, dv;
  QueryNumbers* numbers;  // of each head's queries, padded to a whole part

  bool in_packs() const {
    return call.in_packs() && g.in_packs && dq.in_packs && dk.in_packs && dv.in_packs;
  }
  static int padded(int queries) { return (queries + part - 1) / part * part; }
  __device__ int padded_queries() const { return (call.queries + part - 1) / part * part; }
  __device__ QueryNumbers* numbers_of(int batch, int head) const {
    return numbers + (int64_t{batch} * call.heads + head) * padded_queries();
  }
};

// A block's memory: its own rows of two tensors, and the passing tiles of two others, `step` rows
// each. If there is space, there are two pairs, so that the next one loads during the computation.
// The queries' numbers pass with them, if requested and if there is space.
template <class Kind, int step, bool of_queries>
struct Memory {
  using T = typename Kind::Number;
  static constexpr int width = Kind::width;
  static constexpr int own_size = BlockPlace<Kind::warps>::rows * width, step_size = step * width,
                       most = 48 << 10;
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

// Returns a query's sum of g times out, computed by the four lanes of its row.
template <class T, int width, bool whole>
__device__ float delta_of(const Head<T, whole>& g, const Head<T, whole>& out, int query) {
  constexpr int turns = width / pack_size / 4;
  uint4 left[turns], right[turns];  // all loads start before the first is needed
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

// Computes the numbers of the lane's two queries, and stores them for the other kernel.
template <class Kind>
__device__ void find_numbers(QueryNumbers (&mine)[2], const Gradients& x,
                             const BlockPlace<Kind::warps>& place) {
  using T = typename Kind::Number;
  constexpr bool plain = Kind::plain;
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
    delta[half] = delta_of<T, Kind::width>(g, out, place.warp_first() + lane_row() + half * 8);
#pragma unroll
  for (int half = 0; half < 2; ++half) {
    const bool sees = parts[half][0] != -infinity;
    mine[half] = {sees ? parts[half][0] + parts[half][1] : infinity, sees ? delta[half] : 0};
    const int query = place.warp_first() + lane_row() + half * 8;
    if (lane_column() == 0) x.numbers_of(place.batch, place.head)[query] = mine[half];
  }
}

// The factor of each probability without dropout.
struct KeepingAll {
  __device__ float factor(int, int) const { return 1; }
};

// Converts scores times factor to probabilities after dropout, and products of g v to slopes of the
// loss by the scores. numbers_of(i, j) returns the numbers of the query of element j of fragment i.
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

// Converts products of queries and keys to probabilities, and of g and v to slopes.
template <bool across, bool plain, int fragments, class Numbers>
__device__ void finish_slopes(float (&scores)[fragments][4], float (&products)[fragments][4],
                              const Call& call, const TilePlace& at, Numbers&& numbers_of) {
  const float factor = finish_scores<across, plain>(scores, call, at);
  if (!plain && call.dropout.drops)
    find_slopes(scores, products, factor, Keeping<across, fragments * 8>(call, at), numbers_of);
  else
    find_slopes(scores, products, factor, KeepingAll{}, numbers_of);
}

template <class Kind>
__device__ void query_gradients(const Gradients& x, int64_t block) {
  using T = typename Kind::Number;
  using Place = BlockPlace<Kind::warps>;
  using Loader = TileLoader<Kind::warps, Kind::width, 2, T, Kind::plain>;
  constexpr int width = Kind::width;
  constexpr bool plain = Kind::plain;
  const Call& call = x.call;
  using Tiles = Memory<Kind, key_step, false>;
  SHARED(uint4, shared, Tiles::packs);
  const Tiles memory = {reinterpret_cast<T*>(shared)};
  const Place place(call, block, call.queries);
  const auto head = [&](const Tokens& tokens) {
    return tokens.template head<T, plain>(place.batch, place.head);
  };
  Loader({head(call.q), head(x.g)}, place.first).template load<Place::rows>(memory.own(0));
  Loader loader({head(call.k), head(call.v)}, 0);
  LeftRows<T, width, width == 64> queries(memory.own(0)), gradients(memory.own(1));
  QueryNumbers numbers[2];
  if (place.warp_has_tokens) find_numbers<Kind>(numbers, x, place);
  Sums<width> sums;
  clear(sums);
  const int visible_to_warp =
      place.warp_has_tokens ? call.visible_keys(place.warp_first() + rows_per_warp) : 0;
  for_each_step<Tiles::stages, key_step>(
      0, call.visible_keys(place.first + Place::rows),
      [&](int stage) { loader.template load<key_step>(memory.passing(0, stage)); },
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
  store_rows<width>(head(x.dq), place.first, memory.own(0), sums, {call.scale, call.scale});
}

template <class Kind>
__device__ void key_gradients(const Gradients& x, int64_t block) {
  using T = typename Kind::Number;
  using Place = BlockPlace<Kind::warps>;
  using Loader = TileLoader<Kind::warps, Kind::width, 2, T, Kind::plain>;
  constexpr int width = Kind::width;
  constexpr bool plain = Kind::plain;
  const Call& call = x.call;
  constexpr int step = query_step<width>;
  using Tiles = Memory<Kind, step, true>;
  SHARED(uint4, shared, Tiles::packs);
  const Tiles memory = {reinterpret_cast<T*>(shared)};
  const Place place(call, block, call.keys);
  const auto head = [&](const Tokens& tokens) {
    return tokens.template head<T, plain>(place.batch, place.head);
  };
  const int begin = call.causal ? place.first : 0;
  Loader({head(call.k), head(call.v)}, place.first).template load<Place::rows>(memory.own(0));
  Loader loader({head(call.q), head(x.g)}, begin);
  LeftRows<T, width, width == 64> keys(memory.own(0)), values(memory.own(1));
  const QueryNumbers* const all_numbers = x.numbers_of(place.batch, place.head);
  Sums<width> key_sums, value_sums;
  clear(key_sums);
  clear(value_sums);
  const int end = place.warp_has_tokens ? call.queries : 0;
  int next = begin + static_cast<int>(threadIdx.x) * 2;  // two queries' numbers are 16 bytes
  for_each_step<Tiles::stages, step>(
      begin, call.queries,
      [&](int stage) {
        loader.template load<step>(memory.passing(0, stage));
        if (Tiles::has_numbers && threadIdx.x < step / 2)
          ptx::cp_async_16(memory.numbers(stage) + threadIdx.x * 2, all_numbers + next,
                           next < x.padded_queries() ? 16 : 0);
        next += step;
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
  store_rows<width>(head(x.dk), place.first, memory.own(0), key_sums, {call.scale, call.scale});
  store_rows<width>(head(x.dv), place.first, memory.own(1), value_sums, {1.0f, 1.0f});
}

template <class Kind>
void find_query_gradients(const Gradients& x) {
  constexpr int at_once = Kind::width == 64 && Kind::warps == some_warps ? 3 : 2;
  for_each_block<at_once, Kind::warps * warp_size>(
      BlockPlace<Kind::warps>::count(x.call, x.call.queries),
      [=] ON_DEVICE(int64_t block) { query_gradients<Kind>(x, block); });
}
template <class Kind>
void find_key_gradients(const Gradients& x) {
  constexpr int at_once = Kind::width == 64 && Kind::plain ? 3 : 2;
  for_each_block<at_once, Kind::warps * warp_size>(
      BlockPlace<Kind::warps>::count(x.call, x.call.keys),
      [=] ON_DEVICE(int64_t block) { key_gradients<Kind>(x, block); });
}

}  // namespace
}  // namespace tiles

void tile_attention_backward(const AttentionTensors& x, double scale, bool causal, double dropout,
                             RandomPosition position) {
  using namespace tiles;
  const Call call(x, scale, causal, dropout, position);
  const Workspace<QueryNumbers> numbers(
      call.batches * call.heads * Gradients::padded(call.queries) + 1);
  const Gradients gradients = {call, x.g, x.dq, x.dk, x.dv, numbers.data()};
  const bool whole = gradients.in_packs();
  visit_kinds<false>(call, x.q.dtype, whole, call.queries,
                     [&](auto kind) { find_query_gradients<decltype(kind)>(gradients); });
  visit_kinds<false>(call, x.q.dtype, whole, call.keys,
                     [&](auto kind) { find_key_gradients<decltype(kind)>(gradients); });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
