#include "mixed_precision/strategies/fp16_naive.h"

#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/tensor/tensor.h"
#include "platform/copies.h"

namespace booster {

namespace {

LossScalePolicy policy_of(const FP16NaiveOptions& o) {
  check(o.initial_scale > 0, "fp16_naive: initial_scale must be > 0; got {}", o.initial_scale);
  check(o.growth_factor > 1, "fp16_naive: growth_factor must be > 1; got {}", o.growth_factor);
  check(o.backoff_factor > 0 && o.backoff_factor < 1,
        "fp16_naive: backoff_factor must be in (0, 1); got {}", o.backoff_factor);
  check(o.hysteresis >= 0, "fp16_naive: hysteresis must be >= 0; got {}", o.hysteresis);
  check(o.min_scale >= 0 && o.min_scale <= o.initial_scale,
        "fp16_naive: min_scale must be in [0, initial_scale], here {}; got {}", o.initial_scale,
        o.min_scale);
  check(o.max_scale == 0 || o.max_scale >= o.initial_scale,
        "fp16_naive: max_scale must be 0 or at least initial_scale, here {}; got {}",
        o.initial_scale, o.max_scale);
  LossScalePolicy policy = loss_scale_preset("colossal");
  policy.init = o.initial_scale;
  policy.growth = o.growth_factor;
  policy.backoff = o.backoff_factor;
  policy.growth_interval = o.growth_interval;
  policy.hysteresis = o.hysteresis;
  policy.minimum = o.min_scale;
  policy.maximum = o.max_scale;
  return policy;
}

int64_t zeros_in_gradients(const Optimizer& optimizer) {
  double count = 0;
  const NoGradGuard no_grad;
  for (const auto& parameter : optimizer.parameters_with_grad())
    count += sum(cast(equal(parameter.tensor.grad(), 0), DType::f64)).item();
  return static_cast<int64_t>(count);
}

}  // namespace

FP16Naive::FP16Naive(FP16NaiveOptions options)
    : ScaledPrecision(LossScaler(policy_of(options))), options_(options) {}

void FP16Naive::prepare(const Model& model, const Optimizers& optimizers) {
  cast_models({model}, optimizers, {.dtype = DType::f16});
  ScaledPrecision::prepare(model, optimizers);
}

Tensor FP16Naive::cast_input(const Tensor& x) const {
  return is_floating(x.dtype()) ? cast(x, DType::f16) : x;
}

Tensor FP16Naive::cast_output(const Tensor& y) const {
  return is_16_bit(y.dtype()) ? cast(y, DType::f32) : y;
}

Verdict FP16Naive::inspect(Optimizer& optimizer) {
  if (options_.log_num_zeros_in_grad)
    add_note(fmt::format("fp16_naive: num zeros in grad: {}", zeros_in_gradients(optimizer)));
  return ScaledPrecision::inspect(optimizer);
}

void FP16Naive::update(const Verdict& verdict) {
  ScaledPrecision::update(verdict);
  if (options_.verbose && verdict.found_inf.item() != 0)
    add_note(
        fmt::format("fp16_naive: overflow: step skipped, loss scale {}", scaler().get_scale()));
}

PrecisionMaker FP16NaiveMixedPrecision(FP16NaiveOptions options) {
  return copies_of<Precision>(FP16Naive(options));
}

}  // namespace booster
