// cuBLASLt's algorithm for a product of given dtypes, sizes and layouts; chosen once and kept.
#pragma once

#include "kernels/arguments/view.h"
#include "kernels/cuda/products/blas_lt.h"

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace booster::kernels::cuda {

// A matrix in cuBLASLt's form, column-major: element (i, j) is at i + j * leading.
struct StoredMatrix {
  cudaDataType type;
  bool is_transposed;  // when the product uses it
  uint64_t rows, columns;
  int64_t leading, batch_stride;
  uint32_t alignment;  // of the address, in bytes; 256 at most
  auto operator<=>(const StoredMatrix&) const = default;
};

struct ProductKey {
  int device;
  StoredMatrix left, right, result;
  int32_t batches;
  uint32_t bias_alignment;  // of a vector that is added to each column of the result; 0: none
  auto operator<=>(const ProductKey&) const = default;
};

// The scale factors of the 8-bit floats: one f32 each on the device; null: 1.
struct ProductScales {
  const float *left = nullptr, *right = nullptr;
};

// A product's tensors, on the device.
struct ProductTensors {
  void* result;
  const void *left, *right;
  const void* bias;
  ProductScales scales = {};
};

class ProductPlan {
 public:
  explicit ProductPlan(const ProductKey& key);
  ProductPlan(ProductPlan&&) = default;

  // Returns false if the library refuses this product.
  bool is_possible() const { return !algorithms_.empty(); }
  // Computes result = left right + beta * result + bias, on the stream in use. The first run may
  // time several algorithms (tuning.h). Returns false, and computes nothing, if the library refuses
  // all its proposals; the plan is then no longer possible.
  bool run(const ProductTensors& tensors, double beta);

 private:
  template <class Handle>
  using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, cublasStatus_t (*)(Handle)>;
  using Layout = Owned<cublasLtMatrixLayout_t>;
  static Layout layout_of(const StoredMatrix& matrix, int32_t batches);
  void find_algorithms(const ProductKey& key);
  void take_chosen(const ProductKey& key);
  void take(int choice);
  void choose(const ProductTensors& tensors);
  void drop_chosen();
  cublasStatus_t start(const cublasLtMatmulHeuristicResult_t& algorithm,
                       const ProductTensors& tensors, double beta) const;

  cudaDataType scale_type_;
  Owned<cublasLtMatmulDesc_t> product_;
  Layout left_, right_, result_;
  std::vector<cublasLtMatmulHeuristicResult_t> algorithms_;  // in the library's order
  size_t chosen_ = 0;
  bool is_timed_ = false;  // the next run times them
  std::string name_;       // in the file of choices
  size_t result_bytes_ = 0;
  bool has_bias_, has_scales_;
};

// Returns the plan for a product, made once by each thread. Returns null if the library refuses the
// product, or if there is no library; then it warns once.
ProductPlan* plan_for(const ProductKey& key);

std::optional<cudaDataType> type_of(DType dtype);
// Returns the alignment of an address, in bytes; 256 at most.
uint32_t alignment_of(const void* data);

// Returns true if BOOSTER_TF32=1. f32 products then round their operands to TF32's 11 bits, and run
// on matrix units.
bool allows_tf32();

}  // namespace booster::kernels::cuda
