// cuBLASLt's matrix products, computed by loops. Refuses the same calls as the library. Behaviour
// that the library leaves undefined is a fault: addresses less aligned than promised, a workspace
// that is too small, unwritten memory.
#include "tests/cuda_on_host/device/chance.h"
#include "tests/cuda_on_host/device/fault.h"
#include "tests/cuda_on_host/products/product.h"
#include "tests/cuda_on_host/runtime.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>

struct cuda_on_host_blas {};
struct cuda_on_host_preference {
  size_t most_workspace_bytes = 0;
  uint32_t reductions = ~0u;
  uint32_t alignments[4] = {256, 256, 256, 256};
};

namespace {

using namespace cuda_on_host;

template <class Value>
cublasStatus_t take(Value& place, const void* value, size_t bytes) {
  if (!value || bytes != sizeof place) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&place, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

// CUDA_ON_HOST_CUBLAS=epilogues refuses products with a bias, like an older library; fp8 refuses
// 8-bit floats; runs refuses every product at its start.
bool refuses(std::string_view what) {
  const char* chosen = std::getenv("CUDA_ON_HOST_CUBLAS");
  return chosen && chosen == what;
}

bool is_16_bit(cudaDataType type) { return type == CUDA_R_16F || type == CUDA_R_16BF; }

bool is_8_bit(cudaDataType type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }

bool factors_fit(const Product& product, const Matrix& a, const Matrix& b, const Matrix& d) {
  const bool is_wide = a.type == CUDA_R_64F;
  return a.type == b.type && (d.type == a.type || (is_16_bit(a.type) && d.type == CUDA_R_32F)) &&
         is_wide == (product.compute == CUBLAS_COMPUTE_64F) &&
         product.scale == (is_wide ? CUDA_R_64F : CUDA_R_32F) && !product.a_scale &&
         !product.b_scale;
}

// Checks the conditions of GPUs with such units (8.9, 9.0): A is transposed, B is not, at least one
// is e4m3, and operands and results come in runs of 16 bytes.
bool codes_fit(const Product& product, const Matrix& a, const Matrix& b, const Matrix& d) {
  cudaDeviceProp device = {};
  cudaGetDeviceProperties(&device, device_of_thread());
  const bool has_units = 10 * device.major + device.minor >= 89 && !refuses("fp8");
  const bool types_fit = is_8_bit(a.type) && is_8_bit(b.type) &&
                         (a.type == CUDA_R_8F_E4M3 || b.type == CUDA_R_8F_E4M3) &&
                         (is_16_bit(d.type) || d.type == CUDA_R_32F);
  const bool is_even = a.rows % 16 == 0 && a.leading % 16 == 0 && b.leading % 16 == 0 &&
                       d.rows * size_of(d.type) % 16 == 0 && d.leading * size_of(d.type) % 16 == 0;
  return has_units && types_fit && is_even && product.a == CUBLAS_OP_T &&
         product.b == CUBLAS_OP_N && product.compute == CUBLAS_COMPUTE_32F &&
         product.scale == CUDA_R_32F;
}

// A bias has D's type; with 8-bit floats and an f32 result it must be bf16.
bool bias_fits(const Product& product, const Matrix& a, const Matrix& d) {
  if (product.epilogue == CUBLASLT_EPILOGUE_DEFAULT) return true;
  const cudaDataType type = is_8_bit(a.type) && d.type == CUDA_R_32F ? CUDA_R_16BF : d.type;
  return product.has_bias_type && product.bias_type == type && !refuses("epilogues");
}

cublasStatus_t check_types(const Product& product, const Matrix& a, const Matrix& b,
                           const Matrix& d) {
  const bool tf32_fits = product.compute != CUBLAS_COMPUTE_32F_FAST_TF32 || a.type == CUDA_R_32F;
  const bool fits = is_8_bit(a.type) ? codes_fit(product, a, b, d) : factors_fit(product, a, b, d);
  return fits && tf32_fits && bias_fits(product, a, d) ? CUBLAS_STATUS_SUCCESS
                                                       : CUBLAS_STATUS_NOT_SUPPORTED;
}

cublasStatus_t check_sizes(const Product& product, const Matrix& a, const Matrix& b,
                           const Matrix& d) {
  const Operand left{a, nullptr, product.a == CUBLAS_OP_T},
      right{b, nullptr, product.b == CUBLAS_OP_T}, result{d, nullptr, false};
  const bool fits = left.rows() == result.rows() && left.columns() == right.rows() &&
                    right.columns() == result.columns() && a.batches == d.batches &&
                    b.batches == d.batches;
  for (const Matrix& matrix : {a, b, d})
    if (matrix.leading < matrix.rows || matrix.rows <= 0 || matrix.columns <= 0)
      return CUBLAS_STATUS_INVALID_VALUE;
  return fits ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}

// An algorithm encodes its requirements (alignments and workspace) and its number. With
// CUDA_ON_HOST_CUBLAS=estimates each one's estimated time is longer than the next one's, and the
// last refuses to run.
constexpr int most_algorithms = 4;
void take_time_of(uint64_t algorithm) {
  if (refuses("estimates"))
    pretend_to_take(std::chrono::seconds(most_algorithms - 1 - static_cast<int>(algorithm)));
}

}  // namespace

#define EXPORTED [[gnu::visibility("default")]]

extern "C" {

EXPORTED size_t cublasLtGetVersion() { return 130000; }
EXPORTED cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = new cuda_on_host_blas;
  return CUBLAS_STATUS_SUCCESS;
}
EXPORTED const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "success";
    case CUBLAS_STATUS_INVALID_VALUE: return "an unsupported value or parameter was passed";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "the requested functionality is not supported";
    default: return "the product could not be launched";
  }
}

EXPORTED cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* product,
                                                 cublasComputeType_t compute, cudaDataType scale) {
  *product = new Product{.compute = compute, .scale = scale};
  return CUBLAS_STATUS_SUCCESS;
}
EXPORTED cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t product) {
  delete product;
  return CUBLAS_STATUS_SUCCESS;
}
EXPORTED cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t product,
                                                       cublasLtMatmulDescAttributes_t attribute,
                                                       const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return take(product->a, value, bytes);
    case CUBLASLT_MATMUL_DESC_TRANSB: return take(product->b, value, bytes);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return take(product->epilogue, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return take(product->bias, value, bytes);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER: return take(product->a_scale, value, bytes);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER: return take(product->b_scale, value, bytes);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      product->has_bias_type = true;
      return take(product->bias_type, value, bytes);
  }
  return CUBLAS_STATUS_INVALID_VALUE;
}

EXPORTED cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout,
                                                   cudaDataType type, uint64_t rows,
                                                   uint64_t columns, int64_t leading) {
  *layout = new Matrix{type, static_cast<int64_t>(rows), static_cast<int64_t>(columns), leading};
  return CUBLAS_STATUS_SUCCESS;
}
EXPORTED cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) {
  delete layout;
  return CUBLAS_STATUS_SUCCESS;
}
EXPORTED cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout,
                                                         cublasLtMatrixLayoutAttribute_t attribute,
                                                         const void* value, size_t bytes) {
  return attribute == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT ? take(layout->batches, value, bytes)
                                                         : take(layout->batch_stride, value, bytes);
}

EXPORTED cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  *preference = new cuda_on_host_preference;
  return CUBLAS_STATUS_SUCCESS;
}
EXPORTED cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  delete preference;
  return CUBLAS_STATUS_SUCCESS;
}
EXPORTED cublasStatus_t cublasLtMatmulPreferenceSetAttribute(
    cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
    const void* value, size_t bytes) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return take(preference->most_workspace_bytes, value, bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return take(preference->reductions, value, bytes);
    default:
      return take(preference->alignments[attribute - CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES],
                  value, bytes);
  }
}

EXPORTED cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t product, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int wanted, cublasLtMatmulHeuristicResult_t* results,
    int* found) {
  *found = 0;
  if (wanted < 1 || !results) return CUBLAS_STATUS_INVALID_VALUE;
  for (const cublasStatus_t status :
       {check_sizes(*product, *a, *b, *d), check_types(*product, *a, *b, *d)})
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (preference->reductions & ~uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE})
    fault("cublasLtMatmulAlgoGetHeuristic: parts of sums are rounded, or added in any order");
  for (; *found < std::min(wanted, most_algorithms); ++*found) {
    cublasLtMatmulHeuristicResult_t& result = results[*found] = {};
    for (int i = 0; i < 4; ++i) result.algo.data[i] = preference->alignments[i];
    result.workspaceSize = chance(2) * 4096;
    if (result.workspaceSize > preference->most_workspace_bytes) result.workspaceSize = 0;
    result.algo.data[4] = result.workspaceSize;
    result.algo.data[5] = alignment_of(product->bias);
    result.algo.data[6] = static_cast<uint64_t>(*found);
  }
  return CUBLAS_STATUS_SUCCESS;
}

EXPORTED cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t product,
                                       const void* alpha, const void* a,
                                       cublasLtMatrixLayout_t a_layout, const void* b,
                                       cublasLtMatrixLayout_t b_layout, const void* beta,
                                       const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                                       cublasLtMatrixLayout_t d_layout,
                                       const cublasLtMatmulAlgo_t* algorithm, void* workspace,
                                       size_t workspace_bytes, cudaStream_t stream) {
  for (const cublasStatus_t status : {check_sizes(*product, *a_layout, *b_layout, *d_layout),
                                      check_types(*product, *a_layout, *b_layout, *d_layout)})
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  if (workspace_bytes < algorithm->data[4]) return CUBLAS_STATUS_INVALID_VALUE;
  if (refuses("runs") || (refuses("estimates") && algorithm->data[6] == most_algorithms - 1))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  check_alignment(multiply, "A", a, algorithm->data[0]);
  check_alignment(multiply, "B", b, algorithm->data[1]);
  check_alignment(multiply, "C", c, algorithm->data[2]);
  check_alignment(multiply, "D", d, algorithm->data[3]);
  check_alignment(multiply, "the bias", product->bias, algorithm->data[5]);
  for (const void* scale : {product->a_scale, product->b_scale})
    if (reinterpret_cast<uintptr_t>(scale) % 16 != 0) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (is_8_bit(a_layout->type))
    for (const void* address : {a, b, c, static_cast<const void*>(d)})
      check_alignment(multiply, "a matrix of, or made of, 8-bit floats", address, 16);
  const auto bytes = [](const void* data) { return static_cast<const char*>(data); };
  const auto factor = [&](const void* at) { return load(at, number_of(product->scale)); };
  const QueuedProduct queued{*product,
                             {*a_layout, bytes(a), product->a == CUBLAS_OP_T},
                             {*b_layout, bytes(b), product->b == CUBLAS_OP_T},
                             {*c_layout, bytes(c), false},
                             {*d_layout, bytes(d), false},
                             factor(alpha),
                             factor(beta),
                             static_cast<char*>(workspace),
                             algorithm->data[4]};
  const cudaError_t status = queue_work(stream, [=, number = algorithm->data[6]] {
    take_time_of(number);
    queued.compute();
  });
  return status == cudaSuccess ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_EXECUTION_FAILED;
}
}
