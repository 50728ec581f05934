// Attention of few queries over many keys, as when a language model computes a token from cached
// keys and values. These are read once, in order, where they lie: forward.cpp would copy them
// first.
//
// Heads of queries that share a head of keys are computed together. Results do not depend on the
// number of threads.
#include "kernels/attention/log_2.h"
#include "kernels/catalogue.h"
#include "kernels/products/dot_tile.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

using namespace tile;

constexpr int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
constexpr int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }
constexpr int64_t up_to_vector(int64_t n) {
  return (n + lanes<float> - 1) / lanes<float> * lanes<float>;
}

struct Range {
  int64_t begin, end;
};

struct Call {
  View out, q, k, v, first;
  float scale;  // of scores, in units of log 2
  int64_t window;

  int64_t each() const { return q.shape[1] / k.shape[1]; }
  // Rows are the queries of all heads that share a head of keys.
  int64_t rows() const { return each() * q.shape[2]; }
  // Returns the keys that a row sees; empty for padding.
  Range seen(int64_t batch, int64_t row) const {
    const int64_t position = k.shape[2] - q.shape[2] + row % q.shape[2];
    const int64_t own = first.data ? first.as<const int64_t>()[batch] : 0;
    const int64_t begin = larger(own, window > 0 ? position + 1 - window : 0);
    return {larger(begin, 0), larger(position + 1, larger(begin, 0))};
  }
  // Returns the first element of a row of q or out.
  int64_t element(const View& x, int64_t batch, int64_t key_head, int64_t row) const {
    return batch * x.strides[0] + (key_head * each() + row / q.shape[2]) * x.strides[1] +
           row % q.shape[2] * x.strides[2];
  }
};

// sums[r] (features) = sum over keys of weights[r][key] * v[key]
template <class T, int rows>
void add_values(float* sums, int64_t sums_stride, const float* weights, int64_t weights_stride,
                const T* v, int64_t v_stride, int64_t keys, int64_t features) {
  constexpr int wide = many_registers ? (rows <= 4 ? 4 : 2) : (rows <= 2 ? 4 : 1);
  int64_t at = 0;
  for (; at < features; at += wide * lanes<float>)
    with_vectors<wide>((features - at + lanes<float> - 1) / lanes<float>, [&](auto vectors) {
      Vector<float> sum[rows][vectors.value];
      clear<float>(sum);
      const int64_t left = features - at - (vectors.value - 1) * lanes<float>;
      for (int64_t key = 0; key < keys; ++key) {
        const T* row = v + key * v_stride + at;
        FOR_TILE (c, vectors.value) {
          Vector<float> value;
          if (c + 1 < vectors.value || left >= lanes<float>) {
            value = load_vector(row + c * lanes<float>);
          } else {
            alignas(64) float last[lanes<float>] = {};
            load_dense(last, row + c * lanes<float>, left);
            value = vector_at(last);
          }
          FOR_TILE (r, rows) sum[r][c] += weights[r * weights_stride + key] * value;
        }
      }
      FOR_TILE (r, rows)
        FOR_TILE (c, vectors.value)
          vector_at(sums + r * sums_stride + at + c * lanes<float>) = sum[r][c];
    });
}

// Turns a row of scores into probabilities; keys that it does not see get 0. `scores` has room for
// whole vectors.
void softmax_row(float* scores, int64_t keys, Range seen) {
  for (int64_t i = 0; i < seen.begin; ++i) scores[i] = -__builtin_inff();
  for (int64_t i = seen.end; i < up_to_vector(keys); ++i) scores[i] = -__builtin_inff();
  Vector<float> most = vector_at(scores);
  for (int64_t i = lanes<float>; i < keys; i += lanes<float>)
    most = tile::larger<float>(vector_at(scores + i), most);
  const float best = largest_lane<float>(most);
  const float base = best == -__builtin_inff() ? 0 : best;
  Vector<float> sums = {};
  for (int64_t i = 0; i < keys; i += lanes<float>) {
    vector_at(scores + i) = exp2_of(vector_at(scores + i) - base);
    sums += vector_at(scores + i);
  }
  const float sum = sum_of_lanes<float>(sums), factor = sum == 0 ? 0 : 1 / sum;
  for (int64_t i = 0; i < keys; i += lanes<float>) vector_at(scores + i) *= factor;
}

// Rows [row, row + rows) of one head of keys.
template <class T, int rows>
void attend(const Call& call, int64_t batch, int64_t head, int64_t row) {
  const int64_t size = call.q.shape[3], padded = padded_to_steps<T>(size);
  Range all = call.seen(batch, row);
  for (int r = 1; r < rows; ++r) {
    const Range seen = call.seen(batch, row + r);
    all = {smaller(all.begin, seen.begin), larger(all.end, seen.end)};
  }
  const int64_t keys = all.end - all.begin, width = up_to_vector(keys);
  thread_local Scratch kept;
  float* queries = kept.get<float>(rows * (padded + width + up_to_vector(size)));
  float *scores = queries + rows * padded, *sums = scores + rows * width;
  for (int r = 0; r < rows; ++r) {
    const T* query = call.q.as<const T>() + call.element(call.q, batch, head, row + r);
    widen_row(queries + r * padded, query, call.q.strides[3], size);
    for (int64_t i = 0; i < padded; ++i) queries[r * padded + i] *= call.scale;
  }
  const auto from = [&](const View& x) {
    return x.as<const T>() + batch * x.strides[0] + head * x.strides[1] + all.begin * x.strides[2];
  };
  const int64_t ahead = 4096 / int64_t(sizeof(T));
  dot_rows<T, rows>(scores, width, {queries, padded}, from(call.k), call.k.strides[2], keys, size,
                    ahead);
  for (int r = 0; r < rows; ++r) {
    const Range seen = call.seen(batch, row + r);
    softmax_row(scores + r * width, keys, {seen.begin - all.begin, seen.end - all.begin});
  }
  add_values<T, rows>(sums, up_to_vector(size), scores, width, from(call.v), call.v.strides[2],
                      keys, size);
  for (int r = 0; r < rows; ++r)
    store_run(call.out.as<T>() + call.element(call.out, batch, head, row + r), call.out.dtype,
              call.out.strides[3], sums + r * up_to_vector(size), size);
}

template <class T>
void attend_all(const Call& call) {
  const int64_t heads = call.k.shape[1], rows = call.rows();
  for_each_block(call.q.shape[0] * heads, [&](int64_t index) {
    for (int64_t row = 0; row < rows; row += most_dot_rows)
      with_vectors<most_dot_rows>(rows - row, [&](auto count) {
        attend<T, count.value>(call, index / heads, index % heads, row);
      });
  });
}

}  // namespace

void attention_few_queries(View out, View q, View k, View v, View first, double scale,
                           int64_t window) {
  const Call call{out, q, k, v, first, float(scale * log2_e), window};
  if (q.dtype == DType::f16) return attend_all<f16>(call);
  if (q.dtype == DType::bf16) return attend_all<bf16>(call);
  attend_all<float>(call);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
