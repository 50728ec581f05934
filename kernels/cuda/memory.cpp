// Memory of CUDA devices, behind kernels/system/memory.cpp, and the calls that need the CUDA
// runtime. The runtime is linked statically and looks for the driver when first called, so a
// program built with CUDA starts and trains on the CPU if there is none.
#include "kernels/cuda/memory.h"

#include "kernels/cuda/call.cuh"
#include "kernels/system/error.h"

namespace booster::kernels::cuda {
namespace {

// One default stream orders all work, so the caching allocator may reuse a block before its last
// kernel has finished.
constexpr cudaStream_t stream = nullptr;

cudaError_t count_devices(int* count) {
  const cudaError_t status = cudaGetDeviceCount(count);
  if (status != cudaSuccess) cudaGetLastError();  // a later call would report it again
  return status;
}

void use(int device) {
  int count = 0;
  const cudaError_t status = count_devices(&count);
  if (status != cudaSuccess || count == 0)
    fail("device: there is no usable CUDA device ({}); got cuda:{}, want cpu",
         cudaGetErrorString(status == cudaSuccess ? cudaErrorNoDevice : status), device);
  check(device >= 0 && device < count,
        "device: does not exist; got cuda:{}, want cuda:0 to cuda:{}", device, count - 1);
  CUDA_CALL(cudaSetDevice(device));
}

}  // namespace

void require(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  fail_run("cuda: {} failed; got \"{}\" (error {}), want success", call, cudaGetErrorString(status),
           static_cast<int>(status));
}

void refuse_mixed_devices() {
  fail("device: tensors of one operation lie on different devices; got cpu and cuda, want one");
}

int device_count() {
  int count = 0;
  return count_devices(&count) == cudaSuccess ? count : 0;
}

CudaDevice describe_device(int device) {
  cudaDeviceProp properties = {};
  CUDA_CALL(cudaGetDeviceProperties(&properties, device));
  return {properties.name, properties.major, properties.minor, properties.totalGlobalMem};
}

void* allocate(int device, size_t bytes) {
  use(device);
  void* data = nullptr;
  const cudaError_t status = cudaMalloc(&data, bytes ? bytes : 1);
  if (status == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  require(status, "cudaMalloc");
  return data;
}

// Called by destructors, even after the runtime has shut down: never throws.
void free(int, void* data) { cudaFree(data); }

void copy(void* to, const void* from, size_t bytes) {
  CUDA_CALL(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream));
  CUDA_CALL(cudaStreamSynchronize(stream));
}

void synchronize(int device) {
  use(device);
  CUDA_CALL(cudaStreamSynchronize(stream));
}

void* allocate_queued(size_t bytes) {
  void* data = nullptr;
  CUDA_CALL(cudaMallocAsync(&data, bytes ? bytes : 1, stream));
  return data;
}

void free_queued(void* data) { cudaFreeAsync(data, stream); }

// From pageable memory, the call returns once the bytes have been read.
void upload_queued(void* to, const void* from, size_t bytes) {
  CUDA_CALL(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, stream));
}

}  // namespace booster::kernels::cuda
