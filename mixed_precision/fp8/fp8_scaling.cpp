#include "mixed_precision/fp8/fp8_scaling.h"

#include "core/autograd/observer.h"
#include "kernels/catalogue.h"

#include <cmath>
#include <limits>

namespace booster {
namespace {

constexpr float not_seen = -1;

float* f32_at(const Tensor& x, int64_t i = 0) { return static_cast<float*>(x.data()) + i; }

// Returns the largest value of an input's dtype.
float largest_of(DType dtype) {
  if (dtype == DType::f16) return 65504;
  return dtype == DType::bf16 ? 0x1.FEp127f : std::numeric_limits<float>::max();
}

// The magnitude from which a delayed scale is computed, and its age in passes.
struct Origin {
  double amax = 0;
  int64_t age = 1;
};

// `cursor` is the ring's oldest entry; the entry before it is the newest.
Origin origin_of(const std::vector<double>& history, int64_t cursor, bool most_recent) {
  const auto length = static_cast<int64_t>(history.size());
  cursor = static_cast<uint32_t>(cursor) % length;  // as the kernel reads it
  Origin origin;
  for (int64_t age = 1; age <= (most_recent ? 1 : length); ++age) {
    const double amax = history[static_cast<size_t>((cursor - age + length) % length)];
    if (amax > origin.amax) origin = {amax, age};
  }
  return origin;
}

}  // namespace

Fp8ScaleTable::Fp8ScaleTable(const Fp8Recipe& recipe, Fp8Format format,
                             std::vector<std::string> names, Tensor amaxes)
    : recipe_(recipe), format_(format), names_(std::move(names)), amaxes_(std::move(amaxes)) {
  // Current scaling keeps only the last amax, to check that it is finite.
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
  if (OpObserver* observer = note ? current_observer() : nullptr) [[unlikely]]
    tell(*observer, dense, current, i);
  kernels::on(x.device())
      .fp8_quantize(result.codes.view(), dense.view(), {format_},
                    current.defined() ? f32_at(current) : f32_at(scales_, i),
                    f32_at(result.inverse_scale), note ? f32_at(amaxes_, i) : nullptr);
  return result;
}

void Fp8ScaleTable::tell(OpObserver& observer, const Tensor& x, const Tensor& current,
                         int64_t i) const {
  Origin origin = {.age = 0};
  if (!current.defined())
    origin =
        origin_of(untracked::select(history_, 0, i).to_vector<double>(),
                  untracked::select(cursors_, 0, i).to_vector<int64_t>()[0], recipe_.most_recent);
  const Tensor scale = current.defined() ? current : untracked::select(scales_, 0, i);
  observer.was_quantized({.tensor = names_[static_cast<size_t>(i)],
                          .format = name_of(format_),
                          .from = x,
                          .scale = scale.item(),
                          .underflows_to = underflows_to(format_),
                          .overflows_from = overflows_from(format_),
                          .amax = origin.amax,
                          .age = origin.age});
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

StateDict Fp8ScaleTable::state(int64_t i, const std::string& prefix) const {
  if (!recipe_.delayed) return {};
  const auto row = [i](const Tensor& table) { return untracked::narrow(table, 0, i, 1); };
  return {{prefix + ".scale", row(scales_)},
          {prefix + ".amax_history", row(history_)},
          {prefix + ".cursor", row(cursors_)},
          {prefix + ".amax", row(amaxes_)}};
}

}  // namespace booster
