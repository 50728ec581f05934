// cuBLASLt's functions for matrix products, looked up at the first product.
#pragma once

#include <cublasLt.h>

#include <string>

namespace booster::kernels::cuda {

struct BlasLt {
  decltype(&cublasLtGetVersion) version;
  decltype(&cublasLtCreate) create;
  decltype(&cublasLtGetStatusString) status_string;
  decltype(&cublasLtMatmulDescCreate) create_product;
  decltype(&cublasLtMatmulDescDestroy) destroy_product;
  decltype(&cublasLtMatmulDescSetAttribute) set_of_product;
  decltype(&cublasLtMatrixLayoutCreate) create_layout;
  decltype(&cublasLtMatrixLayoutDestroy) destroy_layout;
  decltype(&cublasLtMatrixLayoutSetAttribute) set_of_layout;
  decltype(&cublasLtMatmulPreferenceCreate) create_preference;
  decltype(&cublasLtMatmulPreferenceDestroy) destroy_preference;
  decltype(&cublasLtMatmulPreferenceSetAttribute) set_of_preference;
  decltype(&cublasLtMatmulAlgoGetHeuristic) find_algorithms;
  decltype(&cublasLtMatmul) multiply;
};

// Returns null if there is no such library, or it lacks one of these.
const BlasLt* blas_lt();
// Returns why it is missing; empty if the library was found.
const std::string& why_no_blas_lt();
// Throws if the status is not success; `call` names its origin.
void require_blas(cublasStatus_t status, const char* call);

}  // namespace booster::kernels::cuda
