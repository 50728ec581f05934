#include "mixed_precision/strategies/fp16_paddle.h"

#include "core/autograd/leaf_gradients.h"
#include "core/autograd/tape.h"
#include "mixed_precision/scaling/loss_scale_rules.h"
#include "platform/copies.h"

#include <algorithm>

namespace booster {

namespace {

OpPolicy all_f32(DeviceType device) {
  OpPolicy policy{.device = device, .cache_casts = false, .name = "fp16_paddle without a guard"};
  policy.classes.fill(OpClass::fp32);
  return policy;
}

void check_layers(const Model& model, const std::vector<std::string>& layers) {
  std::vector<std::string> legal;
  for (const auto& [name, module] : model->named_modules()) {
    if (!name.empty()) legal.push_back(name);
    legal.push_back(module->kind());
  }
  for (const std::string& layer : layers)
    check(std::find(legal.begin(), legal.end(), layer) != legal.end(),
          "fp16_paddle: excluded_layers: no layer has that name or kind; got {}{}", layer,
          legal_names(layer, legal));
}

// Returns the tensors of that name. A layer's name selects its parameters and buffers, and those of
// its sublayers.
std::vector<Tensor> tensors_called(const Model& model, const std::vector<std::string>& names) {
  const StateDict state = model.state_dict();
  std::vector<std::string> legal;
  for (const NamedTensor& held : state) legal.push_back(held.name);
  for (const auto& [name, module] : model->named_modules())
    if (!name.empty() && !module->state_dict().empty()) legal.push_back(name);
  std::vector<Tensor> tensors;
  for (const std::string& name : names) {
    check(std::find(legal.begin(), legal.end(), name) != legal.end(),
          "fp16_paddle: custom_black_varnames: no parameter, buffer, or layer with any, has that "
          "name; got {}{}",
          name, legal_names(name, legal));
    for (const NamedTensor& held : state)
      if (lies_in(held.name, name)) tensors.push_back(held.tensor);
  }
  return tensors;
}

double saved(const PrecisionNumbers& state, const char* key) {
  const auto found = state.find(key);
  check(found != state.end(), "fp16_paddle: load: {} is missing", key);
  return found->second;
}

}  // namespace

FP16Paddle::FP16Paddle(PaddleSettings settings)
    : ScaledPrecision(LossScaler(settings.scaler),
                      {.scales = settings.scales, .widens = settings.master_grad}),
      settings_(std::move(settings)) {
  for (const DeviceType device : {DeviceType::cpu, DeviceType::cuda}) {
    const auto i = static_cast<size_t>(device);
    inside_[i] = paddle_policy(settings_.level, settings_.lower, settings_.lists, device);
    outside_[i] = all_f32(device);
  }
  add_note("fp16_paddle: " + describe(settings_));
  for (const std::string& message : settings_.messages) add_note("fp16_paddle: " + message);
}

// Keeps normalisations f32: batch statistics need it, and the others overflow too easily in f16.
bool FP16Paddle::stays_f32(const std::string& name, const Module& module) const {
  if (!module.own(Role::batch_norm).empty()) return true;
  if (settings_.lower == DType::f16 && !module.own(Role::layer_norm).empty()) return true;
  return std::any_of(
      settings_.excluded_layers.begin(), settings_.excluded_layers.end(),
      [&](const std::string& layer) { return layer == module.kind() || lies_in(name, layer); });
}

void FP16Paddle::check_fits(const Model& model) const {
  check_layers(model, settings_.excluded_layers);
  tensors_called(model, settings_.black_varnames);
}

void FP16Paddle::prepare(const Model& model, const Optimizers& optimizers) {
  ScaledPrecision::prepare(model, optimizers);
  const std::vector<Tensor> black = tensors_called(model, settings_.black_varnames);
  for (size_t i = 0; i < inside_.size(); ++i) {
    inside_[i].f32_only = black;
    outside_[i].in_guard = &inside_[i];
  }
  if (!settings_.converts_model()) return;
  cast_models({model}, optimizers,
              {.dtype = settings_.lower,
               .masters = settings_.masters,
               .keep = [this](const std::string& name, const Module& module) {
                 return stays_f32(name, module);
               }});
  if (!settings_.master_grad) return;
  for (const auto& [name, parameter] : model.parameters())
    if (is_16_bit(parameter.dtype())) keep_grad_in_f32(parameter);
}

const OpPolicy* FP16Paddle::policy(Device device) const {
  if (settings_.level == PaddleLevel::O0) return nullptr;
  return &(settings_.guard ? outside_ : inside_)[static_cast<size_t>(device.type)];
}

PrecisionNumbers FP16Paddle::state() const {
  if (!scales()) return {};
  const LossScalePolicy& law = scaler().policy();
  const LossScaleState now = scaler().state();
  return {{"scale", now.scale},
          {"incr_ratio", law.growth},
          {"decr_ratio", law.backoff},
          {"incr_every_n_steps", static_cast<double>(law.growth_interval)},
          {"decr_every_n_nan_or_inf", static_cast<double>(law.hysteresis)},
          {"incr_count", static_cast<double>(now.good)},
          {"decr_count", static_cast<double>(now.bad)},
          {"use_dynamic_loss_scaling", law.dynamic ? 1.0 : 0.0}};
}

void FP16Paddle::load(const PrecisionNumbers& state) {
  if (!scales()) return;
  LossScalePolicy law = scaler().policy();
  law.growth = saved(state, "incr_ratio");
  law.backoff = saved(state, "decr_ratio");
  law.growth_interval = saved_counter(state, "incr_every_n_steps");
  law.hysteresis = saved_counter(state, "decr_every_n_nan_or_inf");
  const double dynamic = saved(state, "use_dynamic_loss_scaling");
  check(dynamic == 0 || dynamic == 1,
        "fp16_paddle: load: use_dynamic_loss_scaling: got {}, want 0 or 1", dynamic);
  law.dynamic = dynamic == 1;
  scaler().load_state_dict({{"scale", saved(state, "scale")},
                            {"good_steps", saved(state, "incr_count")},
                            {"bad_steps", saved(state, "decr_count")}});
  scaler().set_policy(law);
}

FP16Guard::FP16Guard()
    : scope_(current_policy() && current_policy()->in_guard ? current_policy()->in_guard
                                                            : current_policy()) {}

PrecisionMaker FP16PaddleMixedPrecision(FP16PaddleOptions options) {
  return copies_of<Precision>(FP16Paddle(options));
}

}  // namespace booster
