#include "core/tensor/tensor.h"

#include <fmt/format.h>

#include <ostream>

namespace booster {
namespace {

constexpr int64_t edge = 3;  // elements shown at each end of a long dimension

std::string text_of(double value) { return fmt::format("{:.5g}", value); }
std::string text_of(int64_t value) { return fmt::format("{}", value); }

template <class T>
void print_dimension(const std::vector<T>& values, const Tensor& x, int dim, int64_t offset,
                     std::string& text) {
  if (dim == x.ndim()) {
    text += text_of(values[static_cast<size_t>(offset)]);
    return;
  }
  const int64_t n = x.shape()[dim];
  const int64_t step = x.shape().dense_strides()[dim];
  const bool shorten = x.numel() > 1000 && n > 2 * edge;
  text += '[';
  for (int64_t i = 0; i < n; ++i) {
    if (shorten && i == edge) {
      text += "..., ";
      i = n - edge;
    }
    print_dimension(values, x, dim + 1, offset + i * step, text);
    if (i + 1 < n) text += ", ";
  }
  text += ']';
}

}  // namespace

std::string Tensor::to_string() const {
  if (!defined()) return "undefined tensor";
  std::string text;
  if (is_floating(dtype()))
    print_dimension(to_vector<double>(), *this, 0, 0, text);
  else  // an i64 may have more digits than a double
    print_dimension(to_vector<int64_t>(), *this, 0, 0, text);
  text += fmt::format(" {} {}", name_of(dtype()), shape().to_string());
  if (device().type == DeviceType::cuda) text += fmt::format(" cuda:{}", int{device().index});
  return text;
}

std::ostream& operator<<(std::ostream& stream, const Tensor& x) { return stream << x.to_string(); }

}  // namespace booster
