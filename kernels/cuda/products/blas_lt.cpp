#include "kernels/cuda/products/blas_lt.h"

#include "kernels/cuda/runtime/libraries/libraries.h"
#include "platform/error.h"

#include <dlfcn.h>

namespace booster::kernels::cuda {
namespace {

struct Loaded {
  BlasLt calls = {};
  std::string missing;
};

Loaded load() {
  Loaded loaded;
  const Library library = open_library({"libcublasLt.so.13", "libcublasLt.so.12"});
  loaded.missing = library.missing;
  const auto find = [&]<class Call>(Call& call, const char* name) {
    if (!loaded.missing.empty()) return;
    call = reinterpret_cast<Call>(dlsym(library.handle, name));
    if (!call) loaded.missing = std::string("libcublasLt has no ") + name;
  };
  find(loaded.calls.version, "cublasLtGetVersion");
  find(loaded.calls.create, "cublasLtCreate");
  find(loaded.calls.status_string, "cublasLtGetStatusString");
  find(loaded.calls.create_product, "cublasLtMatmulDescCreate");
  find(loaded.calls.destroy_product, "cublasLtMatmulDescDestroy");
  find(loaded.calls.set_of_product, "cublasLtMatmulDescSetAttribute");
  find(loaded.calls.create_layout, "cublasLtMatrixLayoutCreate");
  find(loaded.calls.destroy_layout, "cublasLtMatrixLayoutDestroy");
  find(loaded.calls.set_of_layout, "cublasLtMatrixLayoutSetAttribute");
  find(loaded.calls.create_preference, "cublasLtMatmulPreferenceCreate");
  find(loaded.calls.destroy_preference, "cublasLtMatmulPreferenceDestroy");
  find(loaded.calls.set_of_preference, "cublasLtMatmulPreferenceSetAttribute");
  find(loaded.calls.find_algorithms, "cublasLtMatmulAlgoGetHeuristic");
  find(loaded.calls.multiply, "cublasLtMatmul");
  return loaded;
}

const Loaded& loaded() {
  static const Loaded once = load();
  return once;
}

}  // namespace

const BlasLt* blas_lt() { return loaded().missing.empty() ? &loaded().calls : nullptr; }
const std::string& why_no_blas_lt() { return loaded().missing; }

void require_blas(cublasStatus_t status, const char* call) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  fail_run("cuda: {} failed; got \"{}\", want success", call, blas_lt()->status_string(status));
}

}  // namespace booster::kernels::cuda
