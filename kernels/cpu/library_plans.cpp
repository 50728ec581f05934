#include "kernels/cpu/library_plans.h"

#include "kernels/cpu/primitive.h"

namespace booster::kernels::cpu {

namespace {

using dnnl::primitive_attr;

#if DNNL_VERSION_MAJOR >= 3

template <class Operation, class... Parts>
auto plan(const primitive_attr& attributes, const Parts&... parts) {
  return typename Operation::primitive_desc(engine(), parts..., attributes, true);
}

template <class Operation, class Forward, class... Parts>
auto plan_backward(const primitive_attr& attributes, const Forward& forward,
                   const Parts&... parts) {
  return plan<Operation>(attributes, parts..., forward);
}

#else

template <class Operation, class... Parts>
auto plan(const primitive_attr& attributes, const Parts&... parts) {
  const typename Operation::desc description(parts...);
  return typename Operation::primitive_desc(description, attributes, engine(), true);
}

template <class Operation, class Forward, class... Parts>
auto plan_backward(const primitive_attr& attributes, const Forward& forward,
                   const Parts&... parts) {
  const typename Operation::desc description(parts...);
  return typename Operation::primitive_desc(description, attributes, engine(), forward, true);
}

#endif

constexpr auto direct = dnnl::algorithm::convolution_direct;

}  // namespace

dnnl::matmul::primitive_desc plan_matmul(const dnnl::memory::desc& a, const dnnl::memory::desc& b,
                                         const dnnl::memory::desc* bias,
                                         const dnnl::memory::desc& out,
                                         const primitive_attr& attributes) {
  if (bias) return plan<dnnl::matmul>(attributes, a, b, *bias, out);
  return plan<dnnl::matmul>(attributes, a, b, out);
}

ConvolutionPlans::Forward ConvolutionPlans::forward(const primitive_attr& attributes) const {
  return plan<dnnl::convolution_forward>(attributes, dnnl::prop_kind::forward_training, direct, x,
                                         weight, bias, y, stride, dilation, padding, padding);
}

ConvolutionPlans::BackwardInput ConvolutionPlans::backward_input(
    const Forward& hint, const primitive_attr& attributes) const {
  return plan_backward<dnnl::convolution_backward_data>(attributes, hint, direct, x, weight, y,
                                                        stride, dilation, padding, padding);
}

ConvolutionPlans::BackwardWeight ConvolutionPlans::backward_weight(
    const Forward& hint, const primitive_attr& attributes) const {
  return plan_backward<dnnl::convolution_backward_weights>(attributes, hint, direct, x, weight, y,
                                                           stride, dilation, padding, padding);
}

}  // namespace booster::kernels::cpu
