// cuBLASLt's matrices are column-major. A row-major matrix is its transpose there, so a row-major
// product out = a b is computed as out^T = b^T a^T, without a copy. Its bias is added along the
// rows of out^T, the columns of out.
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
    // A single row may also be a column.
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

// Returns a factor's transpose; nothing if neither its rows nor its columns are dense.
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

// Returns true if the bias can be added; the library takes it only in the result's dtype.
bool has_way_for_bias(const View& bias, const View& out) {
  return bias.dtype == out.dtype && bias.strides[0] == 1;
}

}  // namespace

bool library_product(const View& out, const View& a, const View& b, const View& bias, double beta) {
  if (out.size() == 0 || a.size() == 0) return false;
  Batch result(out), left(a), right(b);
  const bool by_rows = result.lies_by_rows();
  if (!by_rows) {
    if (bias.data) return false;
    result = result.transposed();
    left = std::exchange(right, left.transposed()).transposed();
  }
  if (result.batches > std::numeric_limits<int32_t>::max()) return false;
  // The first factor of out^T = right^T left^T is `right`.
  const auto first = stored(right), second = stored(left), whole = stored(result);
  if (!first || !second || !whole || whole->is_transposed) return false;
  if (!has_way_for(*first, *second, *whole)) return false;
  if (bias.data && !has_way_for_bias(bias, out)) return false;
  ProductPlan* plan = plan_for({.device = current_device(),
                                .left = *first,
                                .right = *second,
                                .result = *whole,
                                .batches = static_cast<int32_t>(result.batches),
                                .bias_alignment = bias.data ? alignment_of(bias.data) : 0});
  return plan && plan->run({out.data, right.data, left.data, bias.data}, beta);
}

}  // namespace booster::kernels::cuda
