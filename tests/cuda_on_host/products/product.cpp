#include "tests/cuda_on_host/products/product.h"

#include "tests/cuda_on_host/device/watch.h"

#include <numeric>
#include <utility>

namespace cuda_on_host {
namespace {

template <class C>
C load(const char* at, cudaDataType type) {
  return static_cast<C>(load(at, number_of(type)));
}

void open(const void* address, int64_t bytes, bool is_read, const char* what) {
  open_for(multiply, what, address, bytes, is_read);
}

// Returns the scale of 8-bit floats: one f32 on the device, or 1.
template <class C>
C scale_at(const void* scale) {
  if (!scale) return 1;
  open(scale, 4, true, "a scale");
  return load<C>(static_cast<const char*>(scale), CUDA_R_32F);
}

}  // namespace

Number number_of(cudaDataType type) {
  switch (type) {
    case CUDA_R_64F: return Number::f64;
    case CUDA_R_32F: return Number::f32;
    case CUDA_R_16BF: return Number::bf16;
    case CUDA_R_8F_E4M3: return Number::e4m3;
    case CUDA_R_8F_E5M2: return Number::e5m2;
    default: return Number::f16;
  }
}
int64_t size_of(cudaDataType type) { return size_of(number_of(type)); }

const char* Operand::at(int64_t batch, int64_t row, int64_t column) const {
  if (transposed) std::swap(row, column);
  return data +
         size_of(matrix.type) * (batch * matrix.batch_stride + row + column * matrix.leading);
}
void Operand::open_all(bool is_read, const char* what) const {
  for (int64_t batch = 0; batch < matrix.batches; ++batch)
    for (int64_t column = 0; column < matrix.columns; ++column)
      open(data + size_of(matrix.type) * (batch * matrix.batch_stride + column * matrix.leading),
           matrix.rows * size_of(matrix.type), is_read, what);
}

template <class C>
C QueuedProduct::factor(const Operand& operand, int64_t batch, int64_t row,
                        int64_t column) const {
  const C x = load<C>(operand.at(batch, row, column), operand.matrix.type);
  const bool rounds = product.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  return rounds ? static_cast<C>(round_to_tf32(static_cast<float>(x))) : x;
}

// Returns the rows of A, or the columns of B, one after the other.
template <class C>
std::vector<C> QueuedProduct::factors_of(const Operand& operand, int64_t batch) const {
  const bool is_a = &operand == &a;
  const int64_t count = is_a ? a.rows() : b.columns(), depth = a.columns();
  std::vector<C> factors;
  factors.reserve(static_cast<size_t>(count * depth));
  for (int64_t i = 0; i < count; ++i)
    for (int64_t k = 0; k < depth; ++k)
      factors.push_back(is_a ? factor<C>(a, batch, i, k) : factor<C>(b, batch, k, i));
  return factors;
}

template <class C>
void QueuedProduct::compute_in() const {
  const bool has_bias = product.epilogue == CUBLASLT_EPILOGUE_BIAS;
  a.open_all(true, "A");
  b.open_all(true, "B");
  c.open_all(beta != 0, "C");
  d.open_all(false, "D");
  const auto* bias = static_cast<const char*>(product.bias);
  const int64_t bias_size = size_of(product.bias_type);
  if (has_bias) open(bias, d.rows() * bias_size, true, "the bias");
  const C scale = scale_at<C>(product.a_scale) * scale_at<C>(product.b_scale);
  open_workspace(multiply, workspace, static_cast<int64_t>(workspace_bytes));
  const int64_t depth = a.columns();
  for (int64_t batch = 0; batch < d.matrix.batches; ++batch) {
    const auto rows = factors_of<C>(a, batch), columns = factors_of<C>(b, batch);
    for (int64_t column = 0; column < d.columns(); ++column)
      for (int64_t row = 0; row < d.rows(); ++row) {
        const auto first = rows.begin() + row * depth;
        C sum = std::inner_product(first, first + depth, columns.begin() + column * depth, C{0});
        sum *= static_cast<C>(alpha) * scale;
        if (beta != 0)
          sum += static_cast<C>(beta) * load<C>(c.at(batch, row, column), c.matrix.type);
        if (has_bias) sum += load<C>(bias + row * bias_size, product.bias_type);
        char* at = const_cast<char*>(d.at(batch, row, column));
        store(at, number_of(d.matrix.type), sum);
        mark_written(at, static_cast<size_t>(size_of(d.matrix.type)));
      }
  }
}

void QueuedProduct::compute() const {
  product.scale == CUDA_R_64F ? compute_in<double>() : compute_in<float>();
}

}  // namespace cuda_on_host
