// GELU with the bias of the preceding linear layer, its gradient, and bias gradients, as
// kernels/rows/gelu.cpp defines them.
#include "kernels/cuda/rows/column_sums.cuh"
#include "kernels/numbers/math.h"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

// The arguments shared by all blocks; g and dx are for the gradient.
struct BiasGelu {
  Operand y, x, bias, g, dx;
  int64_t columns;
  bool tanh_form;
};

// GELU takes about 20 instructions per element, so it needs more warps than a copy to keep the
// memory busy.
template <class C>
constexpr int blocks_of_gelu = sizeof(C) == 4 ? 3 : 2;

template <class C>
void gelu_of_rows(const BiasGelu& of, int64_t rows) {
  constexpr int64_t rows_of_block = rows_at_once<C, 2> * warps_of_tile;
  const int64_t across = (of.columns + tile_columns - 1) / tile_columns;
  const int64_t down = (rows + rows_of_block - 1) / rows_of_block;
  for_each_block<blocks_of_gelu<C>>(across * down, [=] ON_DEVICE(int64_t block) {
    const int64_t lane = threadIdx.x % warp_size, first = block / across * rows_of_block;
    const TileShare share(block % across * tile_columns + lane * pack_size, of.columns);
    const TileRows mine = {first + threadIdx.x / warp_size,
                           first + rows_of_block < rows ? first + rows_of_block : rows};
    C shift[pack_size];
    load_share(shift, of.bias, 0, share, C(0));
    const bool packs = are_packs(share, mine.first * of.columns, of.x, of.y);
    mine.for_each_batch<rows_at_once<C, 2>>(
        packs, [&]<int most, bool packed>(const RowBatch<most, packed>& batch) {
          RowPacks<C, most> value;
          load_rows<C>(value, of.x, of.columns, share, batch);
#pragma unroll
          for (int i = 0; i < most; ++i)
#pragma unroll
            for (int e = 0; e < pack_size; ++e) {
              const C v = value[i][e] + shift[e];
              value[i][e] = of.tanh_form ? gelu_tanh_(v) : v * normal_cdf(v);
            }
          store_rows<C>(of.y, of.columns, share, batch, value);
        });
  });
}

// Writes dx and sums it.
template <class C>
struct GeluBackward {
  static constexpr int blocks = 2;
  BiasGelu of;
  __device__ void operator()(const TileShare& share, const TileRows& rows,
                             C (&sum)[1][pack_size]) const {
    C shift[pack_size];
    load_share(shift, of.bias, 0, share, C(0));
    const bool packs = are_packs(share, rows.first * of.columns, of.g, of.x, of.dx);
    rows.for_each_batch<rows_at_once<C, 2>>(
        packs, [&]<int most, bool packed>(const RowBatch<most, packed>& batch) {
          RowPacks<C, most> upper, value;
          load_rows<C>(upper, of.g, of.columns, share, batch);
          load_rows<C>(value, of.x, of.columns, share, batch);
#pragma unroll
          for (int i = 0; i < most; ++i) {
            if (i >= batch.count) break;
#pragma unroll
            for (int e = 0; e < pack_size; ++e) {
              const C v = value[i][e] + shift[e];
              value[i][e] = upper[i][e] * (of.tanh_form ? gelu_tanh_slope(v) : gelu_slope(v));
              sum[0][e] += value[i][e];
            }
          }
          store_rows<C>(of.dx, of.columns, share, batch, value);
        });
  }
};

}  // namespace

void bias_gelu(View y, View x, View bias, bool tanh_form) {
  visit_compute(x.dtype, [&]<class C>(C*) {
    gelu_of_rows<C>({y, x, bias, {}, {}, x.columns(), tanh_form}, x.rows());
  });
}

void bias_gelu_backward(View dx, View dbias, View g, View x, View bias, bool tanh_form) {
  visit_compute(x.dtype, [&]<class C>(C*) {
    sum_over_rows<C, 1>({dbias}, x.rows(), x.columns(),
                        GeluBackward<C>{{{}, x, bias, g, dx, x.columns(), tanh_form}});
  });
}

void column_sums(View out, View x) {
  visit_compute(x.dtype, [&]<class C>(C*) {
    sum_over_rows<C, 1>({out}, x.rows(), x.columns(), AddElements<C>{x, x.columns()});
  });
}

}  // namespace booster::kernels::BOOSTER_VARIANT
