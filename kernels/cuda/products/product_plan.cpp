#include "kernels/cuda/products/product_plan.h"

#include "kernels/cuda/products/tuning.h"
#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/graph.h"
#include "kernels/cuda/runtime/memory.h"
#include "platform/environment.h"
#include "platform/warn.h"

#include <fmt/format.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <map>
#include <mutex>

namespace booster::kernels::cuda {
namespace {

// NVIDIA's recommendation for Hopper.
constexpr size_t most_workspace_bytes = size_t{32} << 20;

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

// Returns the handle of the device in use, shared by all threads.
cublasLtHandle_t handle() {
  static std::once_flag created[most_devices];
  static cublasLtHandle_t handles[most_devices];  // never destroyed: the library may end first
  const int device = current_device();
  std::call_once(created[device],
                 [=] { require_blas(blas_lt()->create(&handles[device]), "cublasLtCreate"); });
  return handles[device];
}

std::string name_of(const StoredMatrix& matrix) {
  return fmt::format("{} {} {} {} {} {} {}", static_cast<int>(matrix.type),
                     matrix.is_transposed ? 'T' : 'N', matrix.rows, matrix.columns, matrix.leading,
                     matrix.batch_stride, matrix.alignment);
}
// Returns a name made of all that the choice of an algorithm depends on.
std::string name_of(const ProductKey& key) {
  return fmt::format("{} x {} = {} in {}, {} times, bias {}", name_of(key.left), name_of(key.right),
                     name_of(key.result), static_cast<int>(compute_type(key.left.type)),
                     key.batches, key.bias_alignment);
}

// Returns the bytes of a result.
size_t bytes_of(const StoredMatrix& matrix, int32_t batches) {
  const auto columns = static_cast<int64_t>(matrix.columns);
  const int64_t elements = (batches - 1) * matrix.batch_stride + columns * matrix.leading;
  const bool is_wide = matrix.type == CUDA_R_64F, is_f32 = matrix.type == CUDA_R_32F;
  return static_cast<size_t>(elements) * (is_wide ? 8 : is_f32 ? 4 : 2);
}

// Returns true if the library exists. If not, warns once: a model trains many times slower on a GPU
// without another sign.
bool has_library() {
  static const bool has = [] {
    if (!blas_lt())
      warn("booster: slow matrix products on GPUs because cuBLASLt was not found: " +
           why_no_blas_lt());
    return blas_lt() != nullptr;
  }();
  return has;
}

}  // namespace

bool allows_tf32() {
  static const bool allows = environment::flag("BOOSTER_TF32");
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

ProductPlan* plan_for(const ProductKey& key) {
  thread_local std::map<ProductKey, ProductPlan> plans;
  if (!has_library()) return nullptr;
  auto known = plans.find(key);
  if (known == plans.end()) {
    refuse_in_recording("the preparation of a matrix product");
    known = plans.emplace(key, ProductPlan(key)).first;
  }
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
      has_bias_(key.bias_alignment != 0),
      has_scales_(is_8_bit(key.left.type)) {
  set(product_.get(), CUBLASLT_MATMUL_DESC_TRANSA,
      key.left.is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  set(product_.get(), CUBLASLT_MATMUL_DESC_TRANSB,
      key.right.is_transposed ? CUBLAS_OP_T : CUBLAS_OP_N);
  if (has_bias_) {
    set(product_.get(), CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, key.result.type);
    // Until the product runs, the library reads only the pointer's alignment.
    set(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER,
        reinterpret_cast<const void*>(static_cast<uintptr_t>(key.bias_alignment)));
  }
  find_algorithms(key);
  take_chosen(key);
}

// Finds algorithms. Blocks that share a sum may each write a part of it in f32; the parts are then
// added in one order. Otherwise a gradient of a small weight from many rows has too few tiles for a
// GPU. Parts that are added in arrival order, or rounded to 16 bits, are not allowed.
void ProductPlan::find_algorithms(const ProductKey& key) {
  cublasLtMatmulPreference_t made = nullptr;
  require_blas(blas_lt()->create_preference(&made), "cublasLtMatmulPreferenceCreate");
  const Owned<cublasLtMatmulPreference_t> preference(made, blas_lt()->destroy_preference);
  set(made, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, most_workspace_bytes);
  set(made, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
      static_cast<uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key.left.alignment);
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key.right.alignment);
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key.result.alignment);
  set(made, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key.result.alignment);
  std::vector<cublasLtMatmulHeuristicResult_t> proposed(algorithms_to_propose());
  int found = 0;
  const cublasStatus_t status = blas_lt()->find_algorithms(
      handle(), product_.get(), left_.get(), right_.get(), result_.get(), result_.get(), made,
      static_cast<int>(proposed.size()), proposed.data(), &found);
  if (status != CUBLAS_STATUS_SUCCESS) return;
  for (int i = 0; i < found; ++i)
    if (proposed[i].state == CUBLAS_STATUS_SUCCESS) algorithms_.push_back(proposed[i]);
}

// Takes an algorithm by its number. For an unknown number it takes the library's estimate.
void ProductPlan::take(int choice) {
  const auto number = static_cast<size_t>(choice);
  chosen_ = number < algorithms_.size() ? number : 0;
}

void ProductPlan::take_chosen(const ProductKey& key) {
  if (algorithms_.size() < 2) return;
  name_ = name_of(key);
  result_bytes_ = bytes_of(key.result, key.batches);
  const std::optional<int> known = chosen_algorithm(name_);
  if (known) take(*known);
  is_timed_ = !known && times_products();
}

cublasStatus_t ProductPlan::start(const cublasLtMatmulHeuristicResult_t& algorithm,
                                  const ProductTensors& tensors, double beta) const {
  const double wide[] = {1, beta};
  const float narrow[] = {1, static_cast<float>(beta)};
  const bool is_wide = scale_type_ == CUDA_R_64F;
  const void* factor = is_wide ? static_cast<const void*>(&wide[0]) : &narrow[0];
  const void* kept = is_wide ? static_cast<const void*>(&wide[1]) : &narrow[1];
  const TakenScratch workspace(algorithm.workspaceSize);
  return blas_lt()->multiply(handle(), product_.get(), factor, tensors.left, left_.get(),
                             tensors.right, right_.get(), kept, tensors.result, result_.get(),
                             tensors.result, result_.get(), &algorithm.algo, workspace.data(),
                             algorithm.workspaceSize, current_stream());
}

// Chooses by timed runs, which write to other memory, since a product may add to its result. If the
// device lacks memory for that, it uses the library's estimate.
void ProductPlan::choose(const ProductTensors& tensors) {
  const int device = current_device();
  const std::unique_ptr<void, std::function<void(void*)>> room(
      allocate(device, result_bytes_), [device](void* data) { free(device, data); });
  ProductTensors apart = tensors;
  apart.result = room.get();
  const int count = room ? static_cast<int>(algorithms_.size()) : 1;
  take(choose_algorithm(name_, count, [&](int i) {
    return start(algorithms_[i], apart, 0) == CUBLAS_STATUS_SUCCESS;
  }));
  is_timed_ = false;
}

// Replaces the chosen algorithm by the library's first estimate.
void ProductPlan::drop_chosen() {
  static std::atomic_flag told;
  if (!told.test_and_set())
    warn(
        "booster: cuBLASLt refuses an algorithm that it has proposed for a product; using another "
        "one");
  algorithms_.erase(algorithms_.begin() + static_cast<std::ptrdiff_t>(chosen_));
  chosen_ = 0;
}

bool ProductPlan::run(const ProductTensors& tensors, double beta) {
  if (has_bias_) set(product_.get(), CUBLASLT_MATMUL_DESC_BIAS_POINTER, tensors.bias);
  if (has_scales_) {
    set(product_.get(), CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, tensors.scales.left);
    set(product_.get(), CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, tensors.scales.right);
  }
  if (is_timed_) choose(tensors);
  while (is_possible()) {
    const cublasStatus_t status = start(algorithms_[chosen_], tensors, beta);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED) {
      drop_chosen();
      continue;
    }
    require_blas(status, "cublasLtMatmul");
    wait_if_debugging();
    return true;
  }
  return false;
}

}  // namespace booster::kernels::cuda
