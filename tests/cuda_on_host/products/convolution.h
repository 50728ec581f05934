// The contents of cuDNN's descriptors, and the convolutions that they describe.
#pragma once

#include "tests/cuda_on_host/include/cudnn.h"

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

// (n, c, h, w), or (k, c, h, w) for a filter.
struct cuda_on_host_tensor {
  bool is_set = false;
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::array<int64_t, 4> shape = {}, strides = {};
};
struct cuda_on_host_filter : cuda_on_host_tensor {
  cudnnTensorFormat_t format = CUDNN_TENSOR_NCHW;
};
struct cuda_on_host_convolution {
  bool is_set = false;
  std::array<int64_t, 2> padding = {}, stride = {}, dilation = {};
  cudnnConvolutionMode_t mode = CUDNN_CONVOLUTION;
  cudnnDataType_t compute = CUDNN_DATA_FLOAT;
  int64_t groups = 1;
  cudnnMathType_t math = CUDNN_DEFAULT_MATH;
};

namespace cuda_on_host {

using Tensor = cuda_on_host_tensor;
using Filter = cuda_on_host_filter;
using Convolution = cuda_on_host_convolution;
using Four = std::array<int64_t, 4>;

// Returns the strides of a dense tensor.
Four dense(const Four& shape, cudnnTensorFormat_t format);
// Returns whether CUDA_ON_HOST_CUDNN enables this.
bool plays(std::string_view what);

// A convolution of x by a filter into y, or one of its gradients.
enum class Written { y, x, filter };
struct Problem {
  Tensor x;
  Filter filter;
  Tensor y;
  Convolution convolution;
  Written written;
  int algorithm;

  // Checks the documented conditions of all three calls.
  cudnnStatus_t check() const;
  size_t workspace_bytes() const;
};

// The arguments of a call, by value, since it is computed later.
struct QueuedConvolution {
  const char* call;
  Problem problem;
  const char *x, *filter, *y;
  float alpha, beta;
  void* workspace;

  void compute() const;

 private:
  const Tensor& written_layout() const;
  std::vector<float> sums() const;
  // Calls body(their positions, y's position) for every product of an element of x and one of the
  // filter.
  template <class Body>
  void for_each_product(Body&& body) const;
};

}  // namespace cuda_on_host
