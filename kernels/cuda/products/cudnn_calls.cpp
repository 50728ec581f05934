#include "kernels/cuda/products/cudnn_calls.h"

#include "kernels/cuda/runtime/libraries/libraries.h"
#include "platform/error.h"

#include <dlfcn.h>

namespace booster::kernels::cuda {
namespace {

struct Loaded {
  Cudnn calls = {};
  std::string missing;
};

Loaded load() {
  Loaded loaded;
  const Library library = open_library({"libcudnn.so.9"});
  loaded.missing = library.missing;
  const auto find = [&]<class Call>(Call& call, const char* name) {
    if (!loaded.missing.empty()) return;
    call = reinterpret_cast<Call>(dlsym(library.handle, name));
    if (!call) loaded.missing = std::string("libcudnn has no ") + name;
  };
  find(loaded.calls.version, "cudnnGetVersion");
  find(loaded.calls.error_text, "cudnnGetErrorString");
  find(loaded.calls.create, "cudnnCreate");
  find(loaded.calls.set_stream, "cudnnSetStream");
  find(loaded.calls.create_tensor, "cudnnCreateTensorDescriptor");
  find(loaded.calls.destroy_tensor, "cudnnDestroyTensorDescriptor");
  find(loaded.calls.describe_tensor, "cudnnSetTensor4dDescriptorEx");
  find(loaded.calls.create_filter, "cudnnCreateFilterDescriptor");
  find(loaded.calls.destroy_filter, "cudnnDestroyFilterDescriptor");
  find(loaded.calls.describe_filter, "cudnnSetFilter4dDescriptor");
  find(loaded.calls.create_convolution, "cudnnCreateConvolutionDescriptor");
  find(loaded.calls.destroy_convolution, "cudnnDestroyConvolutionDescriptor");
  find(loaded.calls.describe_convolution, "cudnnSetConvolution2dDescriptor");
  find(loaded.calls.set_groups, "cudnnSetConvolutionGroupCount");
  find(loaded.calls.set_math, "cudnnSetConvolutionMathType");
  find(loaded.calls.forward_workspace, "cudnnGetConvolutionForwardWorkspaceSize");
  find(loaded.calls.input_workspace, "cudnnGetConvolutionBackwardDataWorkspaceSize");
  find(loaded.calls.weight_workspace, "cudnnGetConvolutionBackwardFilterWorkspaceSize");
  find(loaded.calls.forward, "cudnnConvolutionForward");
  find(loaded.calls.backward_input, "cudnnConvolutionBackwardData");
  find(loaded.calls.backward_weight, "cudnnConvolutionBackwardFilter");
  return loaded;
}

const Loaded& loaded() {
  static const Loaded once = load();
  return once;
}

}  // namespace

const Cudnn* cudnn() { return loaded().missing.empty() ? &loaded().calls : nullptr; }
const std::string& why_no_cudnn() { return loaded().missing; }

void require_cudnn(cudnnStatus_t status, const char* call) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  fail_run("cuda: {} failed; got \"{}\", want success", call, cudnn()->error_text(status));
}

}  // namespace booster::kernels::cuda
