#include "mixed_precision/strategies/bf16.h"

#include "kernels/arguments/multi_tensor.h"
#include "platform/copies.h"

#include <algorithm>
#include <iterator>

namespace booster {

namespace {

UpdateRounding rounding_named(const std::string& name) {
  const std::vector<std::string> names = {"nearest", "stochastic", "kahan"};
  const auto found = std::find(names.begin(), names.end(), name);
  check(found != names.end(), "bf16: update: unknown rounding; got {}{}", name,
        legal_names(name, names));
  return static_cast<UpdateRounding>(std::distance(names.begin(), found));
}

void check_style(const std::string& style) {
  const std::vector<std::string> names = {"autocast", "cast"};
  check(std::find(names.begin(), names.end(), style) != names.end(),
        "bf16: style: unknown style; got {}{}", style, legal_names(style, names));
}

bool is_batch_norm(const std::string&, const Module& module) {
  return !module.own(Role::batch_norm).empty();
}

}  // namespace

BF16::BF16(BF16Options options)
    : options_(std::move(options)),
      rounding_(rounding_named(options_.update)),
      policies_{torch_autocast_policy(DeviceType::cpu, DType::bf16),
                torch_autocast_policy(DeviceType::cuda, DType::bf16)},
      overflows_(options_.skip_non_finite) {
  check_style(options_.style);
  for (OpPolicy& policy : policies_) policy.rounds_gradients = options_.round_gradients;
  check(casts() || options_.master_weights,
        "bf16: master_weights = false needs style cast; got style autocast, whose parameters are "
        "f32");
  check(rounding_ == UpdateRounding::nearest || !options_.master_weights,
        "bf16: update = {} needs style cast with master_weights = false; masters lose no updates",
        options_.update);
  check(options_.seed >= 0 && options_.seed <= int64_t{UINT32_MAX},
        "bf16: seed is out of range; got {}, want 0 to {}", options_.seed, UINT32_MAX);
}

void BF16::prepare(const Model& model, const Optimizers& optimizers) {
  if (!casts()) return;
  cast_models({model}, optimizers,
              {.dtype = DType::bf16, .masters = options_.master_weights, .keep = is_batch_norm});
  if (options_.master_weights) return;
  const auto round = [rounding = rounding_, seed = static_cast<uint32_t>(options_.seed)](
                         Optimizer& optimizer, const Parameters& parameters) {
    for (const auto& [name, parameter] : parameters)
      if (parameter.dtype() == DType::bf16) optimizer.set_rounding(name, rounding, seed);
  };
  for (Optimizer optimizer : optimizers) {
    round(optimizer, optimizer.parameters());
    optimizer.on_new_group(round);
  }
}

const OpPolicy* BF16::policy(Device device) const {
  if (casts()) return nullptr;
  return &policies_[device.type == DeviceType::cuda];
}

Tensor BF16::cast_input(const Tensor& x) const {
  return casts() && is_floating(x.dtype()) ? cast(x, DType::bf16) : x;
}

PrecisionMaker BF16MixedPrecision(BF16Options options) {
  return copies_of<Precision>(BF16(std::move(options)));
}

}  // namespace booster
