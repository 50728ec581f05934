// cuBLASLt knows matrices by columns. What lies by rows is its transpose there, so that a product
// by rows, out = a b, is computed as out^T = b^T a^T: no matrix is copied. Its bias is added along
// the rows of out^T, the columns of out.
#include "kernels/cuda/products/library_product.h"

#include "kernels/cuda/products/product_plan.h"
#include "kernels/cuda/runtime/device.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>

namespace booster::kernels::cuda {
namespace {

// A view as (batch, rows, columns).
struct Batch {
  explicit Batch(const View& view) : dtype(view.dtype), data(view.data) {
    const int first = view.ndim - 2;
    batches = first ? view.shape[0] : 1;
    batch_stride = first ? view.strides[0] : 0;
    rows = view.shape[first], columns = view.shape[first + 1];
    row_stride = rows == 1 ? std::max<int64_t>(columns, 1) : view.strides[first];
    column_stride = columns == 1 ? 1 : view.strides[first + 1];
    // A single row may also stand as a column.
    if (rows == 1 && column_stride != 1) row_stride = 1;
  }
  bool lies_by_rows() const { return column_stride == 1 && row_stride >= columns; }
  bool lies_by_columns() const { return row_stride == 1 && column_stride >= rows; }
  Batch transposed() const {
    Batch other = *this;
    std::swap(other.rows, other.columns);
    std::swap(other.row_stride, other.column_stride);
    return other;
  }

  DType dtype;
  void* data;
  int64_t batches, batch_stride, rows, columns, row_stride, column_stride;
};

// As the transpose of a factor; nothing if neither its rows nor its columns are dense.
std::optional<StoredMatrix> stored(const Batch& factor) {
  const auto type = type_of(factor.dtype);
  const bool by_rows = factor.lies_by_rows();
  if (!type || (!by_rows && !factor.lies_by_columns())) return {};
  const auto rows = static_cast<uint64_t>(factor.rows);
  const auto columns = static_cast<uint64_t>(factor.columns);
  return StoredMatrix{.type = *type,
                      .is_transposed = !by_rows,
                      .rows = by_rows ? columns : rows,
                      .columns = by_rows ? rows : columns,
                      .leading = by_rows ? factor.row_stride : factor.column_stride,
                      .batch_stride = factor.batch_stride,
                      .alignment = alignment_of(factor.data)};
}

bool has_way_for(const StoredMatrix& left, const StoredMatrix& right, const StoredMatrix& result) {
  const bool is_16_bit = left.type == CUDA_R_16F || left.type == CUDA_R_16BF;
  return left.type == right.type &&
         (result.type == left.type || (is_16_bit && result.type == CUDA_R_32F));
}

// The library takes a vector in the result's dtype only.
bool has_way_for_vector(const View& vector, const View& out) {
  return vector.dtype == out.dtype && vector.strides[0] == 1;
}

// What a product does with a vector: adds it to each row of out, or sums the rows of a into it.
enum class Vector { none, bias, row_sums };

// Of D = A B, which the library computes, out is the transpose; if it lies by columns, out is D.
cublasLtEpilogue_t epilogue_of(Vector use, bool is_transpose) {
  switch (use) {
    case Vector::bias: return CUBLASLT_EPILOGUE_BIAS;
    case Vector::row_sums:
      return is_transpose ? CUBLASLT_EPILOGUE_BGRADB : CUBLASLT_EPILOGUE_BGRADA;
    default: return CUBLASLT_EPILOGUE_DEFAULT;
  }
}

bool multiply(const View& out, const View& a, const View& b, Vector use, const View& vector,
              double beta) {
  if (out.size() == 0 || a.size() == 0) return false;
  Batch result(out), left(a), right(b);
  const bool by_rows = result.lies_by_rows();
  if (!by_rows) {
    if (use == Vector::bias) return false;
    result = result.transposed();
    left = std::exchange(right, left.transposed()).transposed();
  }
  if (result.batches > std::numeric_limits<int32_t>::max()) return false;
  // Of out^T = right^T left^T the first factor is `right`.
  const auto first = stored(right), second = stored(left), whole = stored(result);
  if (!first || !second || !whole || whole->is_transposed) return false;
  if (!has_way_for(*first, *second, *whole)) return false;
  if (use != Vector::none && !has_way_for_vector(vector, out)) return false;
  ProductPlan* plan =
      plan_for({.device = current_device(),
                .left = *first,
                .right = *second,
                .result = *whole,
                .batches = static_cast<int32_t>(result.batches),
                .epilogue = epilogue_of(use, by_rows),
                .vector_alignment = use == Vector::none ? 0 : alignment_of(vector.data)});
  if (!plan) return false;
  plan->run({out.data, right.data, left.data, vector.data}, beta);
  return true;
}

}  // namespace

bool library_product(const View& out, const View& a, const View& b, const View& bias, double beta) {
  return multiply(out, a, b, bias.data ? Vector::bias : Vector::none, bias, beta);
}

bool library_product_and_sums(const View& out, const View& row_sums, const View& a, const View& b,
                              double beta) {
  // Whether TF32 rounds what is summed is written nowhere.
  if (a.dtype == DType::f32 && allows_tf32()) return false;
  return multiply(out, a, b, Vector::row_sums, row_sums, beta);
}

}  // namespace booster::kernels::cuda
