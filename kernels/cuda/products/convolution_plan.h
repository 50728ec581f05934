// cuDNN's algorithm for a convolution of given dtype, sizes and layout, or for one of its
// gradients; chosen once and kept.
#pragma once

#include "kernels/cuda/products/cudnn_calls.h"
#include "kernels/cuda/products/library_convolution.h"

#include <array>
#include <compare>
#include <memory>
#include <type_traits>

namespace booster::kernels::cuda {

struct ConvolutionKey {
  int device;
  ConvolutionPass pass;
  DType dtype;         // of x, the weight and y; sums are in f32
  bool may_round;      // f32 to TF32's 11 bits
  bool channels_last;  // all three dense, in the order (n, h, w, c); else (n, c, h, w)
  std::array<int, 4> x, weight, y;
  std::array<int, 2> stride, padding, dilation;
  int groups;
  auto operator<=>(const ConvolutionKey&) const = default;
};

class ConvolutionPlan {
 public:
  explicit ConvolutionPlan(const ConvolutionKey& key);
  ConvolutionPlan(ConvolutionPlan&&) = default;

  // Returns false if the library refuses this convolution.
  bool is_possible() const { return is_possible_; }
  // Computes the pass's result from the other two, and adds beta times its old value, on the stream
  // in use. Returns false if the library refuses it now; the plan is then no longer possible.
  bool run(void* x, void* weight, void* y, float beta);

 private:
  template <class Handle>
  using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, cudnnStatus_t (*)(Handle)>;
  bool find_algorithm();
  cudnnStatus_t ask_workspace();
  cudnnStatus_t start(void* x, void* weight, void* y, float beta, void* workspace);

  ConvolutionPass pass_;
  Owned<cudnnTensorDescriptor_t> x_, y_;
  Owned<cudnnFilterDescriptor_t> weight_;
  Owned<cudnnConvolutionDescriptor_t> convolution_;
  int algorithm_ = 0;
  size_t workspace_bytes_ = 0;
  bool is_possible_ = false;
};

// Returns true if the device in use has a usable cuDNN. If not, warns once per program.
bool has_cudnn();

}  // namespace booster::kernels::cuda
