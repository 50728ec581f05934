// The subset of CUDA's language and runtime that the CUDA sources use, for host compilers. Calls
// have CUDA's names and meanings; what they promise is checked (tests/cuda_on_host/README.md).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <tuple>
#include <type_traits>
#include <utility>

#define __host__
#define __device__
#define __global__
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __grid_constant__

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned nx = 1, unsigned ny = 1, unsigned nz = 1) : x(nx), y(ny), z(nz) {}
};
// Copied by one 16-byte access, as on a GPU; its address is checked.
struct alignas(16) uint4 {
  unsigned x, y, z, w;
  uint4() = default;
  uint4(unsigned nx, unsigned ny, unsigned nz, unsigned nw) : x(nx), y(ny), z(nz), w(nw) {}
  uint4(const uint4& other) { *this = other; }
  uint4& operator=(const uint4& other) {
    using Whole [[gnu::may_alias]] = unsigned __int128;
    *reinterpret_cast<Whole*>(this) = *reinterpret_cast<const Whole*>(&other);
    return *this;
  }
};
struct alignas(8) uint2 {
  unsigned x, y;
};

// The position of the running thread.
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorNoDevice = 100,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorECCUncorrectable = 214,
  cudaErrorNvlinkUncorrectable = 220,
  cudaErrorUnsupportedPtxVersion = 222,
  cudaErrorInvalidDevice = 101,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorIllegalState = 401,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
  cudaErrorLaunchTimeout = 702,
  cudaErrorAssert = 710,
  cudaErrorHardwareStackError = 714,
  cudaErrorIllegalInstruction = 715,
  cudaErrorMisalignedAddress = 716,
  cudaErrorInvalidAddressSpace = 717,
  cudaErrorInvalidPc = 718,
  cudaErrorLaunchFailure = 719,
  cudaErrorStreamCaptureUnsupported = 900,
  cudaErrorStreamCaptureInvalidated = 901,
  cudaErrorStreamCaptureMerge = 902,
  cudaErrorStreamCaptureUnmatched = 903,
  cudaErrorStreamCaptureUnjoined = 904,
  cudaErrorStreamCaptureIsolation = 905,
  cudaErrorCapturedEvent = 907,
  cudaErrorStreamCaptureWrongThread = 908,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost,
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice,
  cudaMemcpyDefault,
};
enum cudaStreamCaptureMode {
  cudaStreamCaptureModeGlobal,
  cudaStreamCaptureModeThreadLocal,
  cudaStreamCaptureModeRelaxed,
};
enum cudaStreamCaptureStatus {
  cudaStreamCaptureStatusNone,
  cudaStreamCaptureStatusActive,
  cudaStreamCaptureStatusInvalidated,
};
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold = 4 };

using cudaStream_t = struct cuda_on_host_stream*;
using cudaEvent_t = struct cuda_on_host_event*;
using cudaMemPool_t = struct cuda_on_host_pool*;
using cudaGraph_t = struct cuda_on_host_graph*;
using cudaGraphExec_t = struct cuda_on_host_graph_exec*;

inline constexpr unsigned cudaStreamNonBlocking = 1;
inline constexpr unsigned cudaEventDefault = 0;
inline constexpr unsigned cudaEventDisableTiming = 2;

struct cudaUUID_t {
  char bytes[16];
};
struct cudaDeviceProp {
  char name[256];
  cudaUUID_t uuid;
  int major, minor, multiProcessorCount;
  size_t totalGlobalMem;
};

cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaGetLastError();
const char* cudaGetErrorString(cudaError_t error);

cudaError_t cudaMalloc(void** data, size_t bytes);
cudaError_t cudaFree(void* data);
cudaError_t cudaMallocAsync(void** data, size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void* data, cudaStream_t stream);
cudaError_t cudaMallocHost(void** data, size_t bytes);
cudaError_t cudaFreeHost(void* data);
cudaError_t cudaMemGetInfo(size_t* free, size_t* total);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream);

struct cudaFuncAttributes {
  int numRegs;
};
// Loads the kernel.
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* kernel);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaStreamQuery(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags = 0);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode);
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph);
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status);
cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, cudaStreamCaptureStatus* status,
                                     unsigned long long* id);
cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode);
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long flags);
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream);
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable);
cudaError_t cudaGraphDestroy(cudaGraph_t graph);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to);

namespace cuda_on_host {

// A launch of a kernel: `run(call)` calls it with its arguments, for one thread.
struct Launch {
  const char* name = "";
  const void* kernel = nullptr;
  dim3 grid, block;
  size_t shared_bytes = 0;
  std::shared_ptr<const void> call;
  void (*run)(const void* call) = nullptr;
  const void* arguments = nullptr;
  size_t argument_bytes = 0;
};
cudaError_t launch(Launch launch, cudaStream_t stream);

// Returns `count` values of shared memory for a declaration, which `site` identifies.
void* shared_memory(const void* site, size_t bytes, size_t alignment);
template <class T, size_t count>
T* shared_array(const void* site);
void wait_for_block();
// Reads the value (of `bytes`, at most 8) that lane `source` of the warp gave; `mask` names the
// participating lanes.
void exchange_in_warp(unsigned mask, const void* mine, void* result, size_t bytes, int source);
void wait_for_warp(unsigned mask);
int lane_of_thread();

// A kernel with copies of its arguments.
template <class... P>
struct Call {
  using Arguments = std::tuple<std::decay_t<P>...>;
  void (*kernel)(P...);
  Arguments arguments;
  // Not watched: the kernel itself does not perform these reads.
  __attribute__((no_sanitize("thread"))) static void run(const void* call) {
    const Call* self = static_cast<const Call*>(call);
    pass(self->kernel, &self->arguments);
  }
  static void pass(void (*kernel)(P...), const Arguments* arguments) {
    std::apply(kernel, *arguments);
  }
};

template <class... P, size_t... i>
auto call_of(void (*kernel)(P...), void** arguments, std::index_sequence<i...>) {
  return std::make_shared<const Call<P...>>(
      kernel, typename Call<P...>::Arguments(*static_cast<std::decay_t<P>*>(arguments[i])...));
}

}  // namespace cuda_on_host

template <class... P>
cudaError_t cudaLaunchKernel(void (*kernel)(P...), dim3 grid, dim3 block, void** arguments,
                             size_t shared_bytes, cudaStream_t stream) {
  const auto call = cuda_on_host::call_of(kernel, arguments, std::index_sequence_for<P...>());
  return cuda_on_host::launch(
      {__PRETTY_FUNCTION__, reinterpret_cast<const void*>(kernel), grid, block, shared_bytes, call,
       &cuda_on_host::Call<P...>::run, &call->arguments, sizeof call->arguments},
      stream);
}

// Shared memory as kernels/cuda/launch.cuh declares it.
#define SHARED(type, name, count)                                     \
  auto* const name = ::cuda_on_host::shared_array<type, (count)>([] { \
    static constexpr char site = 0;                                   \
    return &site;                                                     \
  }())

template <class T, size_t count>
T* cuda_on_host::shared_array(const void* site) {
  return static_cast<T*>(shared_memory(site, count * sizeof(T), alignof(T)));
}

inline void __syncthreads() { cuda_on_host::wait_for_block(); }
inline void __syncwarp(unsigned mask = 0xFFFFFFFF) { cuda_on_host::wait_for_warp(mask); }

template <class T>
T __shfl_sync(unsigned mask, T mine, int source) {
  T result;
  cuda_on_host::exchange_in_warp(mask, &mine, &result, sizeof(T), source & 31);
  return result;
}
template <class T>
T __shfl_xor_sync(unsigned mask, T mine, int step) {
  return __shfl_sync(mask, mine, cuda_on_host::lane_of_thread() ^ step);
}
template <class T>
T __shfl_down_sync(unsigned mask, T mine, unsigned step) {
  const int lane = cuda_on_host::lane_of_thread(), source = lane + static_cast<int>(step);
  return __shfl_sync(mask, mine, source < 32 ? source : lane);
}
template <class T>
T __shfl_up_sync(unsigned mask, T mine, unsigned step) {
  const int lane = cuda_on_host::lane_of_thread(), source = lane - static_cast<int>(step);
  return __shfl_sync(mask, mine, source >= 0 ? source : lane);
}
inline unsigned __ballot_sync(unsigned mask, bool mine) {
  unsigned all = 0;
  for (int lane = 0; lane < 32; ++lane)
    if (mask >> lane & 1) all |= unsigned(__shfl_sync(mask, int(mine), lane)) << lane;
  return all;
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }

#include "tests/cuda_on_host/include/ptx.h"
