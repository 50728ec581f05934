#include "mixed_precision/fp8_scaling.h"

#include "kernels/catalogue.h"

#include <cmath>
#include <limits>

namespace booster {
namespace {

constexpr float not_seen = -1;

float* f32_at(const Tensor& x, int64_t i = 0) { return static_cast<float*>(x.data()) + i; }

// The largest number of an input's dtype.
float largest_of(DType dtype) {
  if (dtype == DType::f16) return 65504;
  return dtype == DType::bf16 ? 0x1.FEp127f : std::numeric_limits<float>::max();
}

}  // namespace

Fp8ScaleTable::Fp8ScaleTable(const Fp8Recipe& recipe, Fp8Format format, Tensor amaxes)
    : recipe_(recipe), format_(format), amaxes_(std::move(amaxes)) {
  // Current scaling keeps the last amax only, to see that it is finite.
  if (!recipe.delayed) recipe_.history_length = 1;
  const int64_t tensors = amaxes_.numel();
  const Device device = amaxes_.device();
  amaxes_.fill_(not_seen);
  scales_ = ones({tensors}, {DType::f32, device});
  history_ = zeros({tensors, recipe_.history_length}, {DType::f32, device});
  cursors_ = zeros({tensors}, {DType::i32, device});
  non_finite_ = zeros({}, {DType::f32, device});
}

Tensor Fp8ScaleTable::current_scale(const Tensor& x) const {
  const TensorOptions number = {DType::f32, x.device()};
  const Tensor amax = zeros({}, number), scale = empty({}, number);
  const auto& table = kernels::on(x.device());
  table.fp8_amax(x.view(), f32_at(amax));
  table.fp8_current_scale(f32_at(scale), f32_at(amax),
                          {.largest = largest(format_),
                           .eps = static_cast<float>(recipe_.eps),
                           .power_of_two = recipe_.power_of_two,
                           .limit = largest_of(x.dtype())});
  return scale;
}

Quantized Fp8ScaleTable::quantize(const Tensor& x, int64_t i, bool note) {
  const Tensor dense = untracked::contiguous(x);
  const Tensor current = recipe_.delayed ? Tensor() : current_scale(dense);
  Quantized result = {.codes = empty(x.shape(), {DType::u8, x.device()}),
                      .inverse_scale = empty({}, {DType::f32, x.device()}),
                      .format = format_};
  kernels::on(x.device())
      .fp8_quantize(result.codes.view(), dense.view(), {format_},
                    current.defined() ? f32_at(current) : f32_at(scales_, i),
                    f32_at(result.inverse_scale), note ? f32_at(amaxes_, i) : nullptr);
  return result;
}

void Fp8ScaleTable::end_pass() {
  const kernels::Fp8Scales table = {.amax = f32_at(amaxes_),
                                    .scale = f32_at(scales_),
                                    .history = f32_at(history_),
                                    .cursor = static_cast<int32_t*>(cursors_.data()),
                                    .non_finite = f32_at(non_finite_),
                                    .tensors = amaxes_.numel(),
                                    .length = recipe_.history_length};
  kernels::on(amaxes_.device())
      .fp8_delayed_scale(table,
                         {.largest = largest(format_),
                          .margin_factor = std::ldexp(1.0f, static_cast<int>(recipe_.margin)),
                          .most_recent = recipe_.most_recent});
}

StateDict Fp8ScaleTable::state(const std::string& prefix) const {
  if (!recipe_.delayed) return {};
  return {{prefix + ".scale", scales_},
          {prefix + ".amax_history", history_},
          {prefix + ".cursor", cursors_},
          {prefix + ".amax", amaxes_}};
}

}  // namespace booster
