#include "kernels/cuda/products/product_plan.h"

#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/memory.h"
#include "kernels/system/warn.h"

#include <cstdlib>
#include <map>
#include <mutex>

namespace booster::kernels::cuda {
namespace {

// What NVIDIA advises for Hopper.
constexpr size_t most_workspace_bytes = size_t{32} << 20;
constexpr int most_devices = 64;

cublasComputeType_t compute_type(cudaDataType type) {
  if (type == CUDA_R_64F) return CUBLAS_COMPUTE_64F;
  return type == CUDA_R_32F && allows_tf32() ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

bool is_8_bit(cudaDataType type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }

cublasLtMatmulDesc_t create_product(cublasComputeType_t compute, cudaDataType scale) {
  cublasLtMatmulDesc_t product = nullptr;
  require_blas(blas_lt()->create_product(&product, compute, scale), "cublasLtMatmulDescCreate");
  return product;
}

template <class Value>
void set(cublasLtMatmulDesc_t product, cublasLtMatmulDescAttributes_t attribute,
         const Value& value) {
  require_blas(blas_lt()->set_of_product(product, attribute, &value, sizeof value),
               "cublasLtMatmulDescSetAttribute");
}
template <class Value>
void set(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t attribute,
         const Value& value) {
  require_blas(blas_lt()->set_of_layout(layout, attribute, &value, sizeof value),
               "cublasLtMatrixLayoutSetAttribute");
}
template <class Value>
void set(cublasLtMatmulPreference_t preference, cublasLtMatmulPreferenceAttributes_t attribute,
         const Value& value) {
  require_blas(blas_lt()->set_of_preference(preference, attribute, &value, sizeof value),
               "cublasLtMatmulPreferenceSetAttribute");
}

// One for each device, for all threads.
cublasLtHandle_t handle() {
  static std::once_flag created[most_devices];
  static cublasLtHandle_t handles[most_devices];  // never destroyed: the library may end first
  const int device = current_device();
  std::call_once(created[device],
                 [=] { require_blas(blas_lt()->create(&handles[device]), "cublasLtCreate"); });
  return handles[device];
}

// What trains on a GPU without it is many times slower, and nothing else shows it.
bool has_library() {
  static const bool has = [] {
    if (!blas_lt())
      warn("booster: slow matrix products on GPUs, cuBLASLt was not found: " + why_no_blas_lt());
    return blas_lt() != nullptr;
  }();
  return has;
}

}  // namespace

bool allows_tf32() {
  static const bool allows = [] {
    const char* chosen = std::getenv("BOOSTER_TF32");
    return chosen && *chosen && *chosen != '0';
  }();
  return allows;
}

std::optional<cudaDataType> type_of(DType dtype) {
  switch (dtype) {
    case DType::f32: return CUDA_R_32F;
    case DType::f64: return CUDA_R_64F;
    case DType::f16: return CUDA_R_16F;
    case DType::bf16: return CUDA_R_16BF;
    default: return {};
  }
}

uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<uintptr_t>(data) | 256;
  return static_cast<uint32_t>(address & -address);
}

const ProductPlan* plan_for(const ProductKey& key) {
  thread_local std::map<ProductKey, ProductPlan> plans;
  if (!has_library()) return nullptr;
  auto known = plans.find(key);
  if (known == plans.end()) known = plans.emplace(key, ProductPlan(key)).first;
  return known->second.is_possible() ? &known->second : nullptr;
}

ProductPlan::Layout ProductPlan::layout_of(const StoredMatrix& matrix, int32_t batches) {
  cublasLtMatrixLayout_t made = nullptr;
  require_blas(
      blas_lt()->create_layout(&made, matrix.type, matrix.rows, matrix.columns, matrix.leading),
      "cublasLtMatrixLayoutCreate");
  Layout layout(made, blas_lt()->destroy_layout);
  set(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, batches);
  set(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, matrix.batch_stride);
  return layout;
}

ProductPlan::ProductPlan(const ProductKey& key)
    : scale_type_(key.left.type == CUDA_R_64F ? CUDA_R_64F : CUDA_R_32F),
      product_(create_product(compute_type(key.left.type), scale_type_),
               blas_lt()->destroy_product),
      left_(layout_of(key.left, key.batches)),
      right_(layout_of(key.right, key.batches)),
      result_(layout_of(key.result, key.batches)),
      has_vector_(key.epilogue != CUBLASLT_EPILOGUE_DEFAULT),
      has_scales_(is_8_bit(key.left.type)) {
  set(product_.get(), CUBLASLT_MATMUL_DESC_TRANSA,
      key.left.is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product_.get(), CUBLASLT_MATMUL_DESC_TRANSB,
      key.right.is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (has_vector_) {
    set(product_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE, key.epilogue);
    set(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, key.result.type);
    // It is only looked at for its alignment until the product runs.
    set(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER,
        reinterpret_cast<const void*>(static_cast<uintptr_t>(key.vector_alignment)));
  }
  find_algorithm(key);
}

// Sums that several blocks share are excluded: their order would depend on the size of the GPU.
void ProductPlan::find_algorithm(const ProductKey& key) {
  cublasLtMatmulPreference_t made = nullptr;
  require_blas(blas_lt()->create_preference(&made), "cublasLtMatmulPreferenceCreate");
  const Owned<cublasLtMatmulPreference_t> preference(made, blas_lt()->destroy_preference);
  set(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace_bytes);
  set(made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_NONE));
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.left.alignment);
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.right.alignment);
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.result.alignment);
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.result.alignment);
  cublasLtMatmulHeuristicResult_t best = {};
  int found = 0;
  const cublasStatus_t status =
      blas_lt()->find_algorithms(handle(), product_.get(), left_.get(), right_.get(), result_.get(),
                                 result_.get(), made, 1, &best, &found);
  is_possible_ =
      status == CUBLAS_STATUS_SUCCESS && found > 0 && best.state == CUBLAS_STATUS_SUCCESS;
  algorithm_ = best.algo;
  workspace_bytes_ = best.workspaceSize;
}

void ProductPlan::run(void* result, const void* left, const void* right, void* vector, double beta,
                      const ProductScales& scales) const {
  if (has_vector_) set(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, vector);
  if (has_scales_) {
    set(product_.get(), CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scales.left);
    set(product_.get(), CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scales.right);
  }
  const double wide[] = {1, beta};
  const float narrow[] = {1, static_cast<float>(beta)};
  const bool is_wide = scale_type_ == CUDA_R_64F;
  const void* factor = is_wide ? static_cast<const void*>(&wide[0]) : &narrow[0];
  const void* kept = is_wide ? static_cast<const void*>(&wide[1]) : &narrow[1];
  const TakenScratch workspace(workspace_bytes_);
  require_blas(
      blas_lt()->multiply(handle(), product_.get(), factor, left, left_.get(), right, right_.get(),
                          kept, result, result_.get(), result, result_.get(), &algorithm_,
                          workspace.data(), workspace_bytes_, current_stream()),
      "cublasLtMatmul");
  wait_if_debugging();
}

}  // namespace booster::kernels::cuda
