// cuDNN's functions for convolutions, looked up at the first convolution. They are the functions
// with descriptors, which name the algorithm. cuDNN's newer graphs would choose by heuristics.
#pragma once

#include <cudnn.h>

#include <string>

namespace booster::kernels::cuda {

struct Cudnn {
  decltype(&cudnnGetVersion) version;
  decltype(&cudnnGetErrorString) error_text;
  decltype(&cudnnCreate) create;
  decltype(&cudnnSetStream) set_stream;
  decltype(&cudnnCreateTensorDescriptor) create_tensor;
  decltype(&cudnnDestroyTensorDescriptor) destroy_tensor;
  decltype(&cudnnSetTensor4dDescriptorEx) describe_tensor;
  decltype(&cudnnCreateFilterDescriptor) create_filter;
  decltype(&cudnnDestroyFilterDescriptor) destroy_filter;
  decltype(&cudnnSetFilter4dDescriptor) describe_filter;
  decltype(&cudnnCreateConvolutionDescriptor) create_convolution;
  decltype(&cudnnDestroyConvolutionDescriptor) destroy_convolution;
  decltype(&cudnnSetConvolution2dDescriptor) describe_convolution;
  decltype(&cudnnSetConvolutionGroupCount) set_groups;
  decltype(&cudnnSetConvolutionMathType) set_math;
  decltype(&cudnnGetConvolutionForwardWorkspaceSize) forward_workspace;
  decltype(&cudnnGetConvolutionBackwardDataWorkspaceSize) input_workspace;
  decltype(&cudnnGetConvolutionBackwardFilterWorkspaceSize) weight_workspace;
  decltype(&cudnnConvolutionForward) forward;
  decltype(&cudnnConvolutionBackwardData) backward_input;
  decltype(&cudnnConvolutionBackwardFilter) backward_weight;
};

// Returns null if there is no such library, or it lacks one of these.
const Cudnn* cudnn();
// Returns why it is missing; empty if the library was found.
const std::string& why_no_cudnn();
// Throws if the status is not success; `call` names its origin.
void require_cudnn(cudnnStatus_t status, const char* call);

}  // namespace booster::kernels::cuda
