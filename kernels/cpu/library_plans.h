// oneDNN's plans (its primitive descriptors) of matrix products and convolutions. Only this
// header's source depends on the version of oneDNN: version 2 makes a plan from an operation
// descriptor, version 3 from its parts.
//
// A plan is empty if the library refuses the layouts or dtypes. No state; any thread.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

namespace booster::kernels::cpu {

// Plans out = a b, plus a bias if there is one.
dnnl::matmul::primitive_desc plan_matmul(const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                         const dnnl::memory::desc* bias,
                                         const dnnl::memory::desc& out,
                                         const dnnl::primitive_attr& attributes);

// The passes of one convolution. Tensors keep their roles of the forward pass in all of them.
struct ConvolutionPlans {
  using Forward = dnnl::convolution_forward::primitive_desc;
  using BackwardInput = dnnl::convolution_backward_data::primitive_desc;
  using BackwardWeight = dnnl::convolution_backward_weights::primitive_desc;

  dnnl::memory::desc x, weight, bias, y;
  dnnl::memory::dims stride, dilation, padding;

  Forward forward(const dnnl::primitive_attr& attributes) const;
  // Plan the gradients; the library requires the forward pass's plan.
  BackwardInput backward_input(const Forward& hint, const dnnl::primitive_attr& attributes) const;
  BackwardWeight backward_weight(const Forward& hint, const dnnl::primitive_attr& attributes) const;
};

}  // namespace booster::kernels::cpu
