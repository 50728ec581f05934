// cuDNN's convolutions, computed by loops. Refuses the same calls as the library. Undefined or
// order-dependent behaviour is a fault: a layout other than the filter's, unaligned tensors, a
// workspace that is too small, unwritten memory, algorithms that are not deterministic.
// CUDA_ON_HOST_CUDNN makes it refuse what some versions or cards do not support:
//   absent       does not start
//   refused      every convolution
//   late         every convolution, when it is to run
//   one_layout   channels last
//   hungry       the first forward algorithm wants a TB
#include "tests/cuda_on_host/device/fault.h"
#include "tests/cuda_on_host/products/convolution.h"
#include "tests/cuda_on_host/products/numbers.h"
#include "tests/cuda_on_host/runtime.h"

#include <initializer_list>

struct cuda_on_host_cudnn {
  cudaStream_t stream = nullptr;
  bool has_stream = false;
};

namespace {

using namespace cuda_on_host;

cudnnStatus_t ask(cudnnHandle_t handle, const Problem& problem, size_t* bytes) {
  if (!handle || !bytes) return CUDNN_STATUS_BAD_PARAM;
  const cudnnStatus_t status = problem.check();
  if (status == CUDNN_STATUS_SUCCESS) *bytes = problem.workspace_bytes();
  return status;
}

// Queues the convolution, unless the library would refuse it.
cudnnStatus_t start(cudnnHandle_t handle, size_t workspace_bytes, const QueuedConvolution& queued) {
  if (!handle) return CUDNN_STATUS_BAD_PARAM;
  if (!handle->has_stream) fault("{}: no stream was set, the legacy one would wait", queued.call);
  const cudnnStatus_t status = queued.problem.check();
  if (status != CUDNN_STATUS_SUCCESS) return status;
  if (plays("late")) return CUDNN_STATUS_NOT_SUPPORTED;
  const size_t needed = queued.problem.workspace_bytes();
  if (workspace_bytes < needed || (needed && !queued.workspace)) return CUDNN_STATUS_BAD_PARAM;
  for (const void* data : {queued.x, queued.filter, queued.y})
    check_alignment(queued.call, "a tensor", data, 16);
  check_alignment(queued.call, "the workspace", queued.workspace, 256);
  const cudaError_t given = queue_work(handle->stream, [=] { queued.compute(); });
  return given == cudaSuccess ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_EXECUTION_FAILED;
}

float number(const void* host) { return *static_cast<const float*>(host); }
const char* bytes_of(const void* data) { return static_cast<const char*>(data); }

bool are_positive(std::initializer_list<int> sizes) {
  for (const int size : sizes)
    if (size <= 0) return false;
  return true;
}

template <class Described>
cudnnStatus_t create(Described** made) {
  *made = new Described;
  return CUDNN_STATUS_SUCCESS;
}
template <class Described>
cudnnStatus_t destroy(Described* made) {
  delete made;
  return CUDNN_STATUS_SUCCESS;
}

}  // namespace

#define EXPORTED [[gnu::visibility("default")]]

extern "C" {

EXPORTED size_t cudnnGetVersion() { return 91900; }
EXPORTED const char* cudnnGetErrorString(cudnnStatus_t status) {
  switch (status) {
    case CUDNN_STATUS_SUCCESS: return "CUDNN_STATUS_SUCCESS";
    case CUDNN_STATUS_BAD_PARAM: return "CUDNN_STATUS_BAD_PARAM";
    case CUDNN_STATUS_NOT_SUPPORTED: return "CUDNN_STATUS_NOT_SUPPORTED";
    case CUDNN_STATUS_NOT_INITIALIZED: return "CUDNN_STATUS_NOT_INITIALIZED";
    default: return "CUDNN_STATUS_EXECUTION_FAILED";
  }
}
EXPORTED cudnnStatus_t cudnnCreate(cudnnHandle_t* handle) {
  return plays("absent") ? CUDNN_STATUS_NOT_INITIALIZED : create(handle);
}
EXPORTED cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, cudaStream_t stream) {
  handle->stream = stream;
  handle->has_stream = true;
  return CUDNN_STATUS_SUCCESS;
}

EXPORTED cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t* tensor) {
  return create(tensor);
}
EXPORTED cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t tensor) {
  return destroy(tensor);
}
EXPORTED cudnnStatus_t cudnnSetTensor4dDescriptorEx(cudnnTensorDescriptor_t tensor,
                                                    cudnnDataType_t type, int n, int c, int h,
                                                    int w, int n_stride, int c_stride, int h_stride,
                                                    int w_stride) {
  if (!are_positive({n, c, h, w, n_stride, c_stride, h_stride, w_stride}))
    return CUDNN_STATUS_BAD_PARAM;
  *tensor = {true, type, {n, c, h, w}, {n_stride, c_stride, h_stride, w_stride}};
  return CUDNN_STATUS_SUCCESS;
}
EXPORTED cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t* filter) {
  return create(filter);
}
EXPORTED cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t filter) {
  return destroy(filter);
}
EXPORTED cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t filter,
                                                  cudnnDataType_t type, cudnnTensorFormat_t format,
                                                  int k, int c, int h, int w) {
  if (!are_positive({k, c, h, w})) return CUDNN_STATUS_BAD_PARAM;
  const Four shape = {k, c, h, w};
  *filter = {{true, type, shape, dense(shape, format)}, format};
  return CUDNN_STATUS_SUCCESS;
}
EXPORTED cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t* convolution) {
  return create(convolution);
}
EXPORTED cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t convolution) {
  return destroy(convolution);
}
EXPORTED cudnnStatus_t cudnnSetConvolution2dDescriptor(cudnnConvolutionDescriptor_t convolution,
                                                       int padding_h, int padding_w, int stride_h,
                                                       int stride_w, int dilation_h, int dilation_w,
                                                       cudnnConvolutionMode_t mode,
                                                       cudnnDataType_t compute) {
  if (padding_h < 0 || padding_w < 0 || !are_positive({stride_h, stride_w, dilation_h, dilation_w}))
    return CUDNN_STATUS_BAD_PARAM;
  *convolution = {.is_set = true,
                  .padding = {padding_h, padding_w},
                  .stride = {stride_h, stride_w},
                  .dilation = {dilation_h, dilation_w},
                  .mode = mode,
                  .compute = compute};
  return CUDNN_STATUS_SUCCESS;
}
EXPORTED cudnnStatus_t cudnnSetConvolutionGroupCount(cudnnConvolutionDescriptor_t convolution,
                                                     int groups) {
  if (groups < 1) return CUDNN_STATUS_BAD_PARAM;
  convolution->groups = groups;
  return CUDNN_STATUS_SUCCESS;
}
EXPORTED cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t convolution,
                                                   cudnnMathType_t math) {
  convolution->math = math;
  return CUDNN_STATUS_SUCCESS;
}

EXPORTED cudnnStatus_t cudnnGetConvolutionForwardWorkspaceSize(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnFilterDescriptor_t w,
    cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t y,
    cudnnConvolutionFwdAlgo_t algorithm, size_t* bytes) {
  return ask(handle, {*x, *w, *y, *convolution, Written::y, algorithm}, bytes);
}
EXPORTED cudnnStatus_t cudnnGetConvolutionBackwardDataWorkspaceSize(
    cudnnHandle_t handle, cudnnFilterDescriptor_t w, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t convolution, cudnnTensorDescriptor_t dx,
    cudnnConvolutionBwdDataAlgo_t algorithm, size_t* bytes) {
  return ask(handle, {*dx, *w, *dy, *convolution, Written::x, algorithm}, bytes);
}
EXPORTED cudnnStatus_t cudnnGetConvolutionBackwardFilterWorkspaceSize(
    cudnnHandle_t handle, cudnnTensorDescriptor_t x, cudnnTensorDescriptor_t dy,
    cudnnConvolutionDescriptor_t convolution, cudnnFilterDescriptor_t dw,
    cudnnConvolutionBwdFilterAlgo_t algorithm, size_t* bytes) {
  return ask(handle, {*x, *dw, *dy, *convolution, Written::filter, algorithm}, bytes);
}

EXPORTED cudnnStatus_t cudnnConvolutionForward(cudnnHandle_t handle, const void* alpha,
                                               cudnnTensorDescriptor_t x_layout, const void* x,
                                               cudnnFilterDescriptor_t w_layout, const void* w,
                                               cudnnConvolutionDescriptor_t convolution,
                                               cudnnConvolutionFwdAlgo_t algorithm, void* workspace,
                                               size_t workspace_bytes, const void* beta,
                                               cudnnTensorDescriptor_t y_layout, void* y) {
  const Problem problem = {*x_layout, *w_layout, *y_layout, *convolution, Written::y, algorithm};
  return start(handle, workspace_bytes,
               {"cudnnConvolutionForward", problem, bytes_of(x), bytes_of(w), bytes_of(y),
                number(alpha), number(beta), workspace});
}
EXPORTED cudnnStatus_t cudnnConvolutionBackwardData(
    cudnnHandle_t handle, const void* alpha, cudnnFilterDescriptor_t w_layout, const void* w,
    cudnnTensorDescriptor_t dy_layout, const void* dy, cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionBwdDataAlgo_t algorithm, void* workspace, size_t workspace_bytes,
    const void* beta, cudnnTensorDescriptor_t dx_layout, void* dx) {
  const Problem problem = {*dx_layout, *w_layout, *dy_layout, *convolution, Written::x, algorithm};
  return start(handle, workspace_bytes,
               {"cudnnConvolutionBackwardData", problem, bytes_of(dx), bytes_of(w), bytes_of(dy),
                number(alpha), number(beta), workspace});
}
EXPORTED cudnnStatus_t cudnnConvolutionBackwardFilter(
    cudnnHandle_t handle, const void* alpha, cudnnTensorDescriptor_t x_layout, const void* x,
    cudnnTensorDescriptor_t dy_layout, const void* dy, cudnnConvolutionDescriptor_t convolution,
    cudnnConvolutionBwdFilterAlgo_t algorithm, void* workspace, size_t workspace_bytes,
    const void* beta, cudnnFilterDescriptor_t dw_layout, void* dw) {
  const Problem problem = {*x_layout,    *dw_layout,      *dy_layout,
                           *convolution, Written::filter, algorithm};
  return start(handle, workspace_bytes,
               {"cudnnConvolutionBackwardFilter", problem, bytes_of(x), bytes_of(dw), bytes_of(dy),
                number(alpha), number(beta), workspace});
}
}
