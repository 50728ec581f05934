// The tokens of some heads as matrices of the compute type, (heads, tokens, features), for one
// call. They stay in place if heads have a single stride; else they are copied. Queries, keys and
// values of one Linear have two strides, of heads and of batch items.
#pragma once

#include "kernels/cuda/attention/head_chunks.h"
#include "kernels/cuda/element_group.cuh"
#include "kernels/cuda/launch.cuh"
#include "kernels/launch/workspace.h"
#include "kernels/walks/space.h"

#include <initializer_list>
#include <utility>

namespace booster::kernels::BOOSTER_VARIANT {

template <class C>
inline constexpr DType dtype_of = sizeof(C) == 4 ? DType::f32 : DType::f64;

inline View transposed(View matrices) {
  std::swap(matrices.shape[1], matrices.shape[2]);
  std::swap(matrices.strides[1], matrices.strides[2]);
  return matrices;
}
// Describes memory as (heads, rows, columns) with these distances between rows and between heads.
template <class C>
View matrices_of(C* data, int64_t heads, int64_t rows, int64_t columns, int64_t row, int64_t head) {
  return {data, dtype_of<C>, {DeviceType::cuda}, 3, {heads, rows, columns}, {head, row, 1}};
}
// Returns the scores of a part, without gaps.
template <class C>
View score_matrices(C* data, HeadRange heads, QueryRange queries) {
  const int64_t row = aligned_row(queries.keys);
  return matrices_of(data, heads.count, queries.count, queries.keys, row, queries.count * row);
}

// A tensor and the copy of some of its heads.
template <class C>
struct TokenCopy {
  char* data;
  DType dtype;
  int64_t strides[3];  // in bytes: of batch items, heads and tokens
  C* copy;
  int64_t tokens;
  int64_t blocks_of_head, end_block;  // each thread of a block has a quad
};

template <class C>
class HeadTokens {
 public:
  HeadTokens(const View& tensor, const HeadChunks& chunks)
      : tensor_(tensor),
        heads_(chunks.heads),
        row_(aligned_row(tensor.shape[3])),
        is_copied_(!lies_as_matrices(chunks)),
        room_(is_copied_ ? chunks.heads_at_once * tensor.shape[2] * row_ : 0) {}

  bool is_copied() const { return is_copied_; }
  // Return, for some heads, the queries of a range, or its visible keys (or values).
  View queries(HeadRange heads, QueryRange range) const {
    return rows(heads, range.first, range.count);
  }
  View keys(HeadRange heads, QueryRange range) const { return rows(heads, 0, range.keys); }
  TokenCopy<C> copy() const {
    const int64_t size = size_of(tensor_.dtype);
    return {tensor_.as<char>(),
            tensor_.dtype,
            {tensor_.strides[0] * size, tensor_.strides[1] * size, tensor_.strides[2] * size},
            room_.data(),
            tensor_.shape[2],
            (tensor_.shape[2] * (row_ / quad) + threads_per_block - 1) / threads_per_block,
            0};
  }

 private:
  View rows(HeadRange heads, int64_t first, int64_t count) const {
    const int64_t tokens = tensor_.shape[2], features = tensor_.shape[3];
    if (is_copied_)
      return matrices_of(room_.data() + first * row_, heads.count, count, features, row_,
                         tokens * row_);
    const int64_t* strides = tensor_.strides;
    C* data = tensor_.as<C>() + heads.first / heads_ * strides[0] +
              heads.first % heads_ * strides[1] + first * strides[2];
    return matrices_of(data, heads.count, count, features, strides[2],
                       heads_ == 1 ? strides[0] : strides[1]);
  }
  bool lies_as_matrices(const HeadChunks& chunks) const {
    const bool has_one_stride = heads_ == 1 || chunks.has_one_batch_item() ||
                                tensor_.strides[0] == heads_ * tensor_.strides[1];
    return tensor_.dtype == dtype_of<C> && has_one_stride && tensor_.strides[2] >= tensor_.shape[3];
  }

  View tensor_;
  int64_t heads_, row_;
  bool is_copied_;
  Workspace<C> room_;
};

// The copies of some tensors, which one kernel reads or writes.
template <class C>
struct TokenCopies {
  static constexpr int most = 4;
  TokenCopies(std::initializer_list<const HeadTokens<C>*> tensors, HeadRange range,
              const HeadChunks& chunks)
      : heads(chunks.heads), first_head(range.first), features(chunks.features) {
    for (const HeadTokens<C>* tokens : tensors) {
      if (!tokens->is_copied()) continue;
      TokenCopy<C>& copy = each[count++] = tokens->copy();
      blocks += range.count * copy.blocks_of_head;
      copy.end_block = blocks;
    }
  }

  TokenCopy<C> each[most];
  int count = 0;
  int64_t heads, first_head, features, blocks = 0;
};

// A thread's quad: its row in the tensor, and its row in the copy.
template <class C>
struct QuadPlace {
  void* row;
  DType dtype;
  C* copied_row;
  ElementGroup group;
};

template <class C>
__device__ QuadPlace<C> quad_place(const TokenCopies<C>& all, int64_t block) {
  int which = 0;
  while (block >= all.each[which].end_block) ++which;
  const TokenCopy<C>& x = all.each[which];
  if (which > 0) block -= all.each[which - 1].end_block;
  const int64_t quads = (all.features + quad - 1) / quad;
  const int64_t head = quotient(block, x.blocks_of_head);
  const int64_t i = (block - head * x.blocks_of_head) * threads_per_block + threadIdx.x;
  const int64_t token = quotient(i, quads), first = (i - token * quads) * quad;
  const int64_t batch = quotient(all.first_head + head, all.heads);
  const int64_t head_of_batch = all.first_head + head - batch * all.heads;
  const int64_t left = token < x.tokens ? all.features - first : 0;
  return {x.data + batch * x.strides[0] + head_of_batch * x.strides[1] + token * x.strides[2],
          x.dtype,
          x.copy + (head * x.tokens + token) * quads * quad,
          {first, static_cast<int>(left < quad ? left : quad)}};
}

template <class C>
void fill_copies(const TokenCopies<C>& copies) {
  for_each_block(copies.blocks, [=] ON_DEVICE(int64_t block) {
    const QuadPlace<C> place = quad_place(copies, block);
    C numbers[quad];
    load_group(numbers, place.row, place.dtype, place.group);
    write_group(place.copied_row, place.group, numbers);
  });
}
template <class C>
void write_back(const TokenCopies<C>& copies) {
  for_each_block(copies.blocks, [=] ON_DEVICE(int64_t block) {
    const QuadPlace<C> place = quad_place(copies, block);
    C numbers[quad] = {};
    read_group(numbers, place.copied_row, place.group);
    store_group(place.row, place.dtype, place.group, numbers);
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
