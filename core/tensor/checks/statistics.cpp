#include "core/tensor/checks/statistics.h"

#include "kernels/catalogue.h"

#include <algorithm>
#include <cmath>

namespace booster::numerics {

Statistics statistics_of(const Tensor& x) {
  const auto values = x.detach().to_vector<double>();
  Statistics s{.numel = x.numel()};
  if (values.empty()) return s;
  s.max = s.min = values[0];
  double sum = 0;
  for (const double value : values) {
    if (value > s.max) s.max = value;
    if (value < s.min) s.min = value;
    sum += value;
    const double magnitude = std::fabs(value);
    s.zeros += value == 0;
    s.nans += std::isnan(value);
    s.infs += std::isinf(value);
    if (!std::isfinite(value)) continue;
    s.magnitude = std::max(s.magnitude, magnitude);
    s.above_f16 += magnitude >= f16_overflows_from;
    s.below_f16 += magnitude > 0 && magnitude <= f16_underflows_to;
  }
  s.mean = sum / static_cast<double>(s.numel);
  return s;
}

bool is_finite(const Tensor& x) {
  if (!is_floating(x.dtype()) || x.numel() == 0) return true;
  const Tensor dense = untracked::contiguous(x.detach());
  const kernels::TensorSpan span = {dense.data(), dense.numel(), dense.dtype()};
  const Tensor found = zeros({}, {DType::f32, x.device()});
  kernels::on(x.device()).multi_check({&span, 1}, nullptr, static_cast<float*>(found.data()));
  return found.item() == 0;
}

double unit_in_last_place(double x, DType dtype) {
  const bool half = dtype == DType::f16;
  const int smallest = half ? -14 : -126;  // exponent of normal numbers
  int exponent = smallest;
  if (x != 0) std::frexp(x, &exponent);  // |x| in [2^(exponent - 1), 2^exponent)
  return std::ldexp(1, std::max(exponent - 1, smallest) - (half ? 10 : 7));
}

std::string describe(const Tensor& x, const Statistics& s) {
  std::string text = fmt::format("{} {}: ", name_of(x.dtype()), x.shape());
  if (s.nans) text += fmt::format("{} nan, ", s.nans);
  if (s.infs) text += fmt::format("{} inf, ", s.infs);
  return text + fmt::format("largest finite {:.4g}", s.magnitude);
}

}  // namespace booster::numerics
