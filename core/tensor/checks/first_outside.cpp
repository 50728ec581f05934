#include "core/tensor/checks/first_outside.h"

#include "kernels/catalogue.h"

namespace booster {
namespace {

double extreme(kernels::ReduceOp op, const Tensor& x) {
  Shape one = x.shape();
  for (int i = 0; i < one.ndim(); ++i) one[i] = 1;
  const Tensor result = empty(one, {x.dtype(), x.device()});
  kernels::on(x.device()).reduce(op, result.view(), x.view());
  return result.item();
}

}  // namespace

int64_t first_outside(const Tensor& x, double least, double most) {
  const auto is_inside = [=](double number) { return number >= least && number <= most; };
  if (x.numel() == 0) return -1;
  if (is_inside(extreme(kernels::ReduceOp::amin, x)) &&
      is_inside(extreme(kernels::ReduceOp::amax, x)))
    return -1;
  const std::vector<double> numbers = x.to_vector<double>();
  size_t at = 0;
  while (is_inside(numbers[at])) ++at;
  return static_cast<int64_t>(at);
}

}  // namespace booster
