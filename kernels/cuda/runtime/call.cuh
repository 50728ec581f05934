// CUDA_CALL(cudaFree(p)) makes every call of the CUDA runtime one line: it throws Error with the
// call and the runtime's reason.
#pragma once

#include <cuda_runtime_api.h>

namespace booster::kernels::cuda {

void require(cudaError_t status, const char* call);

}  // namespace booster::kernels::cuda

#define CUDA_CALL(expression) ::booster::kernels::cuda::require((expression), #expression)
