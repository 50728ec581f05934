// Texts for the runtime's errors.
#include "kernels/cuda/runtime/call.cuh"
#include "platform/error.h"

namespace booster::kernels::cuda {
namespace {

// Returns true if the process can no longer use the GPU; every call then fails with the same error.
bool is_lasting(cudaError_t status) {
  switch (status) {
    case cudaErrorECCUncorrectable:
    case cudaErrorIllegalAddress:
    case cudaErrorLaunchTimeout:
    case cudaErrorAssert:
    case cudaErrorHardwareStackError:
    case cudaErrorIllegalInstruction:
    case cudaErrorMisalignedAddress:
    case cudaErrorInvalidAddressSpace:
    case cudaErrorInvalidPc:
    case cudaErrorLaunchFailure:
    case cudaErrorNvlinkUncorrectable: return true;
    default: return false;
  }
}

}  // namespace

void require(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();
  const char* const reason = cudaGetErrorString(status);
  const int number = static_cast<int>(status);
  if (is_lasting(status))
    fail_run(
        "cuda: an earlier kernel has failed, and this process can no longer use its GPU; got "
        "\"{}\" (error {}) from {}, want a new process, with BOOSTER_CUDA_DEBUG=1 to find the call",
        reason, number, call);
  if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorUnsupportedPtxVersion)
    fail_run(
        "cuda: this build has no code for the GPU and its driver; got \"{}\" (error {}) from "
        "{}, want a build with the GPU's compute capability in -Dgpu_arch, or a later driver",
        reason, number, call);
  fail_run("cuda: {} failed; got \"{}\" (error {}), want success", call, reason, number);
}

}  // namespace booster::kernels::cuda
