#include "kernels/cuda/products/convolution_plan.h"

#include "kernels/cuda/runtime/device.h"
#include "kernels/cuda/runtime/memory.h"
#include "platform/warn.h"

#include <mutex>
#include <span>

namespace booster::kernels::cuda {
namespace {

constexpr size_t most_workspace_bytes = size_t{512} << 20;

// One handle for each device, for all threads. A lock covers setting its stream and the call.
struct Handle {
  std::once_flag created;
  std::mutex mutex;
  cudnnHandle_t handle = nullptr;  // never destroyed: the library may end first
};

Handle& shared_handle() {
  static Handle handles[most_devices];
  Handle& shared = handles[current_device()];
  std::call_once(shared.created, [&] {
    const cudnnStatus_t status = cudnn()->create(&shared.handle);
    if (status == CUDNN_STATUS_SUCCESS) return;
    shared.handle = nullptr;
    warn(std::string("booster: slow convolutions on GPUs because cuDNN does not start: ") +
         cudnn()->error_text(status));
  });
  return shared;
}

// Returns algorithms with sums of products in a fixed order: no Winograd and no FFT, which round at
// other points. The first one that the library accepts is used.
std::span<const int> algorithms(ConvolutionPass pass) {
  static constexpr int forward[] = {CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_PRECOMP_GEMM,
                                    CUDNN_CONVOLUTION_FWD_ALGO_IMPLICIT_GEMM};
  static constexpr int input[] = {CUDNN_CONVOLUTION_BWD_DATA_ALGO_1};
  static constexpr int weight[] = {CUDNN_CONVOLUTION_BWD_FILTER_ALGO_1};
  switch (pass) {
    case ConvolutionPass::input: return input;
    case ConvolutionPass::weight: return weight;
    default: return forward;
  }
}

cudnnDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::f16: return CUDNN_DATA_HALF;
    case DType::bf16: return CUDNN_DATA_BFLOAT16;
    default: return CUDNN_DATA_FLOAT;
  }
}

cudnnMathType_t math_of(const ConvolutionKey& key) {
  if (is_16_bit(key.dtype)) return CUDNN_TENSOR_OP_MATH;
  return key.may_round ? CUDNN_DEFAULT_MATH : CUDNN_FMA_MATH;
}

template <class Handle>
Handle created(cudnnStatus_t (*create)(Handle*), const char* call) {
  Handle made = nullptr;
  require_cudnn(create(&made), call);
  return made;
}

void describe(cudnnTensorDescriptor_t tensor, const std::array<int, 4>& shape,
              const ConvolutionKey& key) {
  const auto [n, c, h, w] = shape;
  require_cudnn(key.channels_last ? cudnn()->describe_tensor(tensor, type_of(key.dtype), n, c, h, w,
                                                             h * w * c, 1, w * c, c)
                                  : cudnn()->describe_tensor(tensor, type_of(key.dtype), n, c, h, w,
                                                             c * h * w, h * w, w, 1),
                "cudnnSetTensor4dDescriptorEx");
}

bool is_refusal(cudnnStatus_t status) {
  return status >= CUDNN_STATUS_NOT_SUPPORTED && status < CUDNN_STATUS_INTERNAL_ERROR;
}

}  // namespace

bool has_cudnn() {
  static const bool found = [] {
    if (!cudnn())
      warn("booster: slow convolutions on GPUs because cuDNN was not found: " + why_no_cudnn());
    return cudnn() != nullptr;
  }();
  return found && shared_handle().handle;
}

ConvolutionPlan::ConvolutionPlan(const ConvolutionKey& key)
    : pass_(key.pass),
      x_(created(cudnn()->create_tensor, "cudnnCreateTensorDescriptor"), cudnn()->destroy_tensor),
      y_(created(cudnn()->create_tensor, "cudnnCreateTensorDescriptor"), cudnn()->destroy_tensor),
      weight_(created(cudnn()->create_filter, "cudnnCreateFilterDescriptor"),
              cudnn()->destroy_filter),
      convolution_(created(cudnn()->create_convolution, "cudnnCreateConvolutionDescriptor"),
                   cudnn()->destroy_convolution) {
  describe(x_.get(), key.x, key);
  describe(y_.get(), key.y, key);
  const auto [outputs, inputs, height, width] = key.weight;
  require_cudnn(cudnn()->describe_filter(weight_.get(), type_of(key.dtype),
                                         key.channels_last ? CUDNN_TENSOR_NHWC : CUDNN_TENSOR_NCHW,
                                         outputs, inputs, height, width),
                "cudnnSetFilter4dDescriptor");
  require_cudnn(
      cudnn()->describe_convolution(convolution_.get(), key.padding[0], key.padding[1],
                                    key.stride[0], key.stride[1], key.dilation[0], key.dilation[1],
                                    CUDNN_CROSS_CORRELATION, CUDNN_DATA_FLOAT),
      "cudnnSetConvolution2dDescriptor");
  require_cudnn(cudnn()->set_groups(convolution_.get(), key.groups),
                "cudnnSetConvolutionGroupCount");
  require_cudnn(cudnn()->set_math(convolution_.get(), math_of(key)), "cudnnSetConvolutionMathType");
  is_possible_ = find_algorithm();
}

bool ConvolutionPlan::find_algorithm() {
  for (const int algorithm : algorithms(pass_)) {
    algorithm_ = algorithm;
    workspace_bytes_ = 0;
    if (ask_workspace() == CUDNN_STATUS_SUCCESS && workspace_bytes_ <= most_workspace_bytes)
      return true;
  }
  return false;
}

cudnnStatus_t ConvolutionPlan::ask_workspace() {
  Handle& shared = shared_handle();
  const std::lock_guard lock(shared.mutex);
  switch (pass_) {
    case ConvolutionPass::input:
      return cudnn()->input_workspace(
          shared.handle, weight_.get(), y_.get(), convolution_.get(), x_.get(),
          static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm_), &workspace_bytes_);
    case ConvolutionPass::weight:
      return cudnn()->weight_workspace(
          shared.handle, x_.get(), y_.get(), convolution_.get(), weight_.get(),
          static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm_), &workspace_bytes_);
    default:
      return cudnn()->forward_workspace(
          shared.handle, x_.get(), weight_.get(), convolution_.get(), y_.get(),
          static_cast<cudnnConvolutionFwdAlgo_t>(algorithm_), &workspace_bytes_);
  }
}

cudnnStatus_t ConvolutionPlan::start(void* x, void* weight, void* y, float beta, void* workspace) {
  const float one = 1;
  Handle& shared = shared_handle();
  const std::lock_guard lock(shared.mutex);
  require_cudnn(cudnn()->set_stream(shared.handle, current_stream()), "cudnnSetStream");
  switch (pass_) {
    case ConvolutionPass::input:
      return cudnn()->backward_input(shared.handle, &one, weight_.get(), weight, y_.get(), y,
                                     convolution_.get(),
                                     static_cast<cudnnConvolutionBwdDataAlgo_t>(algorithm_),
                                     workspace, workspace_bytes_, &beta, x_.get(), x);
    case ConvolutionPass::weight:
      return cudnn()->backward_weight(shared.handle, &one, x_.get(), x, y_.get(), y,
                                      convolution_.get(),
                                      static_cast<cudnnConvolutionBwdFilterAlgo_t>(algorithm_),
                                      workspace, workspace_bytes_, &beta, weight_.get(), weight);
    default:
      return cudnn()->forward(shared.handle, &one, x_.get(), x, weight_.get(), weight,
                              convolution_.get(),
                              static_cast<cudnnConvolutionFwdAlgo_t>(algorithm_), workspace,
                              workspace_bytes_, &beta, y_.get(), y);
  }
}

bool ConvolutionPlan::run(void* x, void* weight, void* y, float beta) {
  const TakenScratch workspace(workspace_bytes_);
  const cudnnStatus_t status = start(x, weight, y, beta, workspace.data());
  if (is_refusal(status)) return is_possible_ = false;
  require_cudnn(status, "a convolution of cuDNN");
  wait_if_debugging();
  return true;
}

}  // namespace booster::kernels::cuda
