#include "core/tensor/checks/checked_index.h"

#include "core/tensor/later_checks.h"
#include "kernels/catalogue.h"
#include "kernels/host/recording.h"

#include <utility>

namespace booster {
namespace {

Tensor moved_inside(const Tensor& index, int64_t size) {
  const auto& table = kernels::on(index.device());
  const Tensor inside = empty_like(index);
  const auto end = static_cast<double>(size - 1);
  table.binary_scalar(kernels::BinaryOp::maximum, inside.view(), index.view(), 0, false);
  table.binary_scalar(kernels::BinaryOp::minimum, inside.view(), inside.view(), end, false);
  return inside;
}

}  // namespace

Tensor checked_index(const Tensor& bad, const Tensor& index, int64_t size,
                     std::function<void(int64_t)> raise) {
  if (kernels::is_recording()) {
    check(size > 0 || index.numel() == 0,
          "capture: an index into an empty tensor; got one of {} elements", index.numel());
    check_later(bad, std::move(raise));
    return moved_inside(index, size);
  }
  if (const auto at = static_cast<int64_t>(bad.item()); at >= 0) raise(at);
  return index;
}

Tensor room_for_read(const Shape& shape, TensorOptions options) {
  return kernels::is_recording() ? zeros(shape, options) : empty(shape, options);
}

}  // namespace booster
