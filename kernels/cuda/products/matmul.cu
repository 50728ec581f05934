// Matrix products on a GPU: by cuBLASLt, or by tiles, for every dtype and any strides.
#include "kernels/cuda/catalogue.h"
#include "kernels/cuda/products/library_product.h"
#include "kernels/cuda/products/tile_product.cuh"

namespace booster::kernels::BOOSTER_VARIANT {
namespace {

// One of the operands, as (batch, side, depth).
template <class C>
struct Operand {
  const void* data;
  DType dtype;
  int64_t batch_stride, side_stride, depth_stride;
  Along along;
  __device__ C operator()(int64_t batch, int64_t side, int64_t depth) const {
    return load_any<C>(data, dtype,
                       batch * batch_stride + side * side_stride + depth * depth_stride);
  }
};

template <class C>
Operand<C> operand(const View& view, int side, int depth) {
  const int first = view.ndim - 2;
  const int64_t along_side = view.strides[first + side], along_depth = view.strides[first + depth];
  return {view.data,  view.dtype,  first ? view.strides[0] : 0,
          along_side, along_depth, along_depth == 1 ? Along::depth : Along::side};
}

// out = sum + bias + beta * out, rounded once.
template <class C>
struct Result {
  void* data;
  DType dtype;
  int64_t batch_stride, row_stride, column_stride;
  View bias;
  C beta;
  __device__ void operator()(int64_t batch, int64_t row, int64_t column, C sum) const {
    if (bias.data) sum += load_any<C>(bias.data, bias.dtype, column * bias.strides[0]);
    const int64_t at = batch * batch_stride + row * row_stride + column * column_stride;
    if (beta != C(0)) sum += beta * load_any<C>(data, dtype, at);
    store_any<C>(data, dtype, at, sum);
  }
};

template <class C>
void multiply(const View& out, const View& a, const View& b, const View& bias, double beta) {
  const int first = out.ndim - 2;
  const ProductSizes size = {first ? out.shape[0] : 1, out.shape[first], out.shape[first + 1],
                             a.shape[a.ndim - 1]};
  const Result<C> result = {
      out.data, out.dtype, first ? out.strides[0] : 0, out.strides[first], out.strides[first + 1],
      bias,     C(beta)};
  tile_product<C>(size, operand<C>(a, 0, 1), operand<C>(b, 1, 0), result);
}

View transposed(const View& w) {
  View view = w;
  for (int i = 0; i < 2; ++i) {
    view.shape[i] = w.shape[1 - i];
    view.strides[i] = w.strides[1 - i];
  }
  return view;
}

}  // namespace

void matmul_loop(View out, View a, View b, View bias, double beta) {
  if (a.dtype == DType::f64) return multiply<double>(out, a, b, bias, beta);
  if (is_floating(a.dtype)) return multiply<float>(out, a, b, bias, beta);
  multiply<int64_t>(out, a, b, bias, beta);
}

void matmul(View out, View a, View b, double beta) {
  if (!library_product(out, a, b, {}, beta)) matmul_loop(out, a, b, {}, beta);
}

void linear(View y, View x, View w, View bias) {
  const View across = transposed(w);
  if (!library_product(y, x, across, bias, 0)) matmul_loop(y, x, across, bias, 0);
}

void linear_backward_weight(View dweight, View dbias, View g, View x, double beta) {
  matmul(dweight, transposed(g), x, beta);
  if (dbias.data) column_sums(dbias, g);
}

}  // namespace booster::kernels::BOOSTER_VARIANT
