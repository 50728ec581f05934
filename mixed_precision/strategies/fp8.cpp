#include "mixed_precision/strategies/fp8.h"

#include "platform/copies.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

namespace booster {
namespace {

constexpr int64_t unit = 16;  // 8-bit matrix units take sizes that are multiples of it

void check_choice(const char* option, const std::string& value,
                  const std::vector<std::string>& choices, const char* hint = "") {
  check(std::find(choices.begin(), choices.end(), value) != choices.end(),
        "fp8: {}: unknown value; got {}{}{}", option, value, legal_names(value, choices), hint);
}

Fp8Recipe recipe_of(const FP8Options& options) {
  check_choice("scaling", options.scaling, {"delayed", "current"},
               "; scales per block (mxfp8) are not supported");
  check_choice("format", options.format, {"hybrid", "e4m3"},
               "; e5m2 alone has too few digits for activations and weights");
  check_choice("amax_compute_algo", options.amax_compute_algo, {"max", "most_recent"});
  check(options.amax_history_len >= 1, "fp8: amax_history_len must be at least 1; got {}",
        options.amax_history_len);
  check(options.margin >= 0 && options.margin <= 64, "fp8: margin must be in [0, 64]; got {}",
        options.margin);
  check(options.amax_epsilon >= 0 && options.amax_epsilon < 1e38,
        "fp8: amax_epsilon must be a number >= 0; got {}", options.amax_epsilon);
  return {.delayed = options.scaling == "delayed",
          .history_length = options.amax_history_len,
          .most_recent = options.amax_compute_algo == "most_recent",
          .margin = options.margin,
          .power_of_two = options.power_of_two_scales,
          .eps = options.amax_epsilon};
}

// Returns the name of a linear weight: its module's name. If the module has several, it is the
// weight's own name below the module: "blocks.0.attn.in_proj".
std::string layer_name(const std::string& module, const std::string& weight) {
  const std::string own = weight == "weight" ? "" : weight.substr(0, weight.rfind("_weight"));
  if (module.empty()) return own.empty() ? "model" : own;
  return own.empty() ? module : module + "." + own;
}

// Returns every weight of this role once, in module order.
std::vector<Fp8Layer> linear_layers(const Model& model) {
  std::vector<Fp8Layer> layers;
  std::unordered_set<const TensorBody*> seen;
  for (const auto& [name, module] : model->named_modules())
    for (const auto& [own, weight] : module->own(Role::linear_weight))
      if (seen.insert(weight.body()).second) layers.push_back({layer_name(name, own), weight});
  return layers;
}

bool is_excluded(const FP8Options& options, const std::string& layer) {
  return std::any_of(options.exclude.begin(), options.exclude.end(),
                     [&](const std::string& name) { return lies_in(layer, name); });
}

bool fits(const Tensor& weight) { return weight.size(0) % unit == 0 && weight.size(1) % unit == 0; }

// Adds the note "fp8: fc1, fc2 run in bf16: the reason", or none without names.
void note(NoteTaker& taker, const std::vector<std::string>& names, const std::string& reason) {
  if (names.empty()) return;
  taker.add_note(fmt::format("fp8: {} {} in bf16: {}", fmt::join(names, ", "),
                             names.size() == 1 ? "runs" : "run", reason));
}

OpPolicy bf16_policy(DeviceType device) {
  OpPolicy policy = torch_autocast_policy(device, DType::bf16);
  policy.name = "fp8";
  return policy;
}

}  // namespace

FP8::FP8(FP8Options options)
    : options_(std::move(options)),
      recipe_(recipe_of(options_)),
      cpu_(bf16_policy(DeviceType::cpu)),
      cuda_(bf16_policy(DeviceType::cuda)),
      overflows_(options_.skip_non_finite) {}

void FP8::check_fits(const Model& model) const {
  std::vector<std::string> legal;
  for (const Fp8Layer& layer : linear_layers(model)) legal.push_back(layer.name);
  for (const std::string& name : options_.exclude)
    check(std::ranges::any_of(legal, [&](auto& layer) { return lies_in(layer, name); }),
          "fp8: exclude: no layer has this name; got {}{}", name, legal_names(name, legal));
}

void FP8::prepare(const Model& model, const Optimizers&) {
  const std::vector<Fp8Layer> all = linear_layers(model);
  std::vector<Fp8Layer> chosen;
  std::vector<std::string> excluded, at_the_ends, unfit;
  for (const Fp8Layer& layer : all) {
    const auto& [name, weight] = layer;
    if (weight.numel() == 0) continue;  // the layer is on another stage of a pipeline
    const bool at_an_end = &layer == &all.front() || &layer == &all.back();
    if (is_excluded(options_, name))
      excluded.push_back(name);
    else if (options_.first_and_last_in_bf16 && at_an_end)
      at_the_ends.push_back(name);
    else if (!fits(weight))
      unfit.push_back(fmt::format("{} ({} in, {} out)", name, weight.size(1), weight.size(0)));
    else
      chosen.push_back(layer);
  }
  note(*this, excluded, "excluded");
  note(*this, at_the_ends, "first_and_last_in_bf16");
  note(*this, unfit, fmt::format("8-bit matrix units need sizes that are multiples of {}", unit));
  for (const Fp8Layer& layer : chosen) layers_.push_back(layer.name);
  if (chosen.empty()) {
    add_note("fp8: no layer runs in 8 bits");
    return;
  }
  const Fp8Format gradients = options_.format == "hybrid" ? Fp8Format::e5m2 : Fp8Format::e4m3;
  linear_ = std::make_shared<Fp8Linear>(recipe_, gradients, chosen);
  cpu_.linear_method = cuda_.linear_method = linear_.get();
}

const OpPolicy* FP8::policy(Device device) const {
  return device.type == DeviceType::cuda ? &cuda_ : &cpu_;
}

LossPass FP8::begin_loss(const LossStart& start) {
  check_options(start.options);
  return {.end = [this, named = start.optimizers](const Optimizers& unnamed) {
    Optimizers all = named;
    all.insert(all.end(), unnamed.begin(), unnamed.end());
    return end(Pass::backward, all);
  }};
}

SharedNumbers FP8::end(Pass pass, const Optimizers& optimizers) {
  if (!linear_) return {};
  SharedNumbers shared = {.agreed = [this, pass, optimizers] { agreed(pass, optimizers); }};
  if (recipe_.delayed && options_.reduce_amax) {
    shared.numbers = linear_->maxima(pass);
    shared.among = Among::same_layers;
  }
  return shared;
}

// Notes infinities by the magnitudes, since a cast to 8 bits makes them finite. They count for this
// loss's optimizers.
void FP8::agreed(Pass pass, const Optimizers& optimizers) {
  linear_->end_pass(pass);
  if (pass == Pass::forward || !options_.skip_non_finite) return;
  const Tensor found = linear_->non_finite();
  for (const Optimizer& optimizer : optimizers) overflows_.note(optimizer, untracked::clone(found));
  linear_->forget_non_finite();
}

StateDict FP8::state_tensors() const { return linear_ ? linear_->state() : StateDict{}; }

PrecisionMaker FP8MixedPrecision(FP8Options options) {
  return copies_of<Precision>(FP8(std::move(options)));
}

}  // namespace booster
