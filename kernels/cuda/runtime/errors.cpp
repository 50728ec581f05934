// Texts for the runtime's errors.
#include "kernels/cuda/runtime/call.cuh"
#include "platform/error.h"

namespace booster::kernels::cuda {
namespace {

// Returns whether the process can no longer use the GPU: every call fails with the same error then.
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
        "cuda: a kernel that ran before has failed, and this process can compute nothing on its "
        "GPU "
        "any more; got \"{}\" (error {}) from {}, want a new process, with BOOSTER_CUDA_DEBUG=1 if "
        "the call is to be found that did it",
        reason, number, call);
  if (status == cudaErrorNoKernelImageForDevice || status == cudaErrorUnsupportedPtxVersion)
    fail_run(
        "cuda: this build has no code that the GPU and its driver take; got \"{}\" (error {}) from "
        "{}, want a build with the GPU's compute capability in -Dgpu_arch, or a later driver",
        reason, number, call);
  fail_run("cuda: {} failed; got \"{}\" (error {}), want success", call, reason, number);
}

}  // namespace booster::kernels::cuda
