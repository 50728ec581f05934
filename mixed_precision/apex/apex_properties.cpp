#include "mixed_precision/apex/apex_properties.h"

#include "mixed_precision/scaling/loss_scale_presets.h"
#include "mixed_precision/scaling/loss_scale_rules.h"
#include "platform/error.h"

#include <charconv>
#include <cmath>

namespace booster {

namespace {

struct Level {
  const char* name;
  std::optional<DType> cast_model_type;
  bool patch_torch_functions;
  std::optional<bool> keep_batchnorm_fp32;
  std::optional<bool> master_weights;
  const char* loss_scale;
};

constexpr Level levels[] = {
    {"O0", DType::f32, false, {}, false, "1.0"},
    {"O1", {}, true, {}, {}, "dynamic"},
    {"O2", DType::f16, false, true, true, "dynamic"},
    {"O3", DType::f16, false, false, false, "1.0"},
};

const Level& level_named(const std::string& name) {
  for (const Level& level : levels)
    if (name == level.name) return level;
  fail(
      "fp16_apex: opt_level: unknown level; got {}, want one of O0, O1, O2, O3 (the letter O, not "
      "the number zero)",
      name);
}

bool is_o1(const Level& level) { return level.patch_torch_functions; }

[[noreturn]] void refuse(const char* property, const ApexValue& got, const char* why) {
  fail("fp16_apex: {}: {}; got {}", property, why, got.to_string());
}

bool flag(const char* property, const ApexValue& value) {
  const std::string text = value.to_string();
  if (text != "True" && text != "False")
    refuse(property, value, "want true, false, \"True\" or \"False\"");
  return text == "True";
}

std::optional<DType> dtype(const char* property, const ApexValue& value) {
  const std::string text = value.to_string();
  if (text == "fp16" || text == "float16") return DType::f16;
  if (text == "fp32" || text == "float32") return DType::f32;
  refuse(property, value, "want fp16 or fp32");
}

// Parses what Python's float() accepts, except values that cannot be a loss scale.
double number(const char* property, const ApexValue& value) {
  constexpr const char* spaces = " \t\n\r";
  std::string text = value.to_string();
  text.erase(0, text.find_first_not_of(spaces));
  text.erase(text.find_last_not_of(spaces) + 1);
  if (text.starts_with('+')) text.erase(0, 1);
  const char* end = text.data() + text.size();
  double x = 0;
  const auto [rest, error] = std::from_chars(text.data(), end, x);
  if (error != std::errc() || rest != end || !is_usable_scale(x))
    refuse(property, value, "want dynamic or a finite number > 0");
  return x;
}

std::optional<DType> cast_model_type(const Level& level, const ApexValue& value) {
  if (!value.given()) return level.cast_model_type;
  if (value.to_string() == "False") return {};
  const auto type = dtype("cast_model_type", value);
  if (is_o1(level) && type != DType::f32)
    refuse("cast_model_type", value,
           "O1 casts around ops, and the model stays fp32; leave it out, or use O2 or O3 to cast "
           "the model");
  return type;
}

bool patch_torch_functions(const Level& level, const ApexValue& value) {
  if (!value.given()) return level.patch_torch_functions;
  const bool patch = flag("patch_torch_functions", value);
  if (patch && !is_o1(level))
    refuse("patch_torch_functions", value, "only O1 accepts true; use opt_level O1");
  return patch;
}

std::optional<bool> keep_batchnorm_fp32(const Level& level, const ApexValue& value) {
  if (!value.given()) return level.keep_batchnorm_fp32;
  if (is_o1(level))
    refuse("keep_batchnorm_fp32", value,
           "O1 always keeps fp32 weights in batch normalisation; leave it out");
  return flag("keep_batchnorm_fp32", value);
}

std::optional<bool> master_weights(const Level& level, const ApexValue& value) {
  if (!value.given()) return level.master_weights;
  if (is_o1(level))
    refuse("master_weights", value, "in O1 the weights are already fp32; leave it out");
  return flag("master_weights", value);
}

LossScalePolicy loss_scale(const Level& level, const FP16ApexOptions& options) {
  LossScalePolicy policy = loss_scale_preset("apex");
  const ApexValue value = options.loss_scale.given() ? options.loss_scale : level.loss_scale;
  policy.minimum = options.min_loss_scale;
  policy.maximum = options.max_loss_scale;
  policy.dynamic = value.to_string() == "dynamic";
  policy.skips = policy.dynamic;  // with a static scale infinities reach the weights, as in Apex
  policy.init =
      policy.dynamic ? std::min(policy.init, policy.maximum) : number("loss_scale", value);
  return policy;
}

void check_limits(const FP16ApexOptions& options) {
  check(options.num_losses >= 1, "fp16_apex: num_losses must be at least 1; got {}",
        options.num_losses);
  check(options.verbosity >= 0 && options.verbosity <= 2,
        "fp16_apex: verbosity must be 0, 1 or 2; got {}", options.verbosity);
  const double low = options.min_loss_scale, high = options.max_loss_scale;
  check(high > 0 && std::isfinite(high), "fp16_apex: max_loss_scale must be finite and > 0; got {}",
        high);
  check(low >= 0 && low <= high,
        "fp16_apex: min_loss_scale must be in [0, max_loss_scale], here {}; got {}", high, low);
}

std::string shown(std::optional<bool> flag) {
  return flag ? ApexValue(*flag).to_string() : ApexValue().to_string();
}
std::string shown(std::optional<DType> dtype) {
  if (!dtype) return "None";
  return *dtype == DType::f16 ? "fp16" : "fp32";
}

}  // namespace

ApexProperties resolve(const FP16ApexOptions& options) {
  const Level& level = level_named(options.opt_level);
  check_limits(options);
  ApexProperties properties = {
      .enabled = options.enabled,
      .opt_level = level.name,
      .cast_model_type = cast_model_type(level, options.cast_model_type),
      .patch_torch_functions = patch_torch_functions(level, options.patch_torch_functions),
      .keep_batchnorm_fp32 = keep_batchnorm_fp32(level, options.keep_batchnorm_fp32),
      .master_weights = master_weights(level, options.master_weights),
      .loss_scale = loss_scale(level, options),
      .cast_model_outputs = {}};
  if (options.cast_model_outputs.given())
    properties.cast_model_outputs = dtype("cast_model_outputs", options.cast_model_outputs);
  return properties;
}

std::vector<std::string> ApexProperties::describe() const {
  const auto line = [](const char* name, const std::string& value) {
    return fmt::format("{:<22}: {}", name, value);
  };
  const std::string scale = loss_scale.dynamic ? "dynamic" : fmt::format("{}", loss_scale.init);
  return {line("enabled", shown(std::optional(enabled))),
          line("opt_level", opt_level),
          line("cast_model_type", shown(cast_model_type)),
          line("patch_torch_functions", shown(std::optional(patch_torch_functions))),
          line("keep_batchnorm_fp32", shown(keep_batchnorm_fp32)),
          line("master_weights", shown(master_weights)),
          line("loss_scale", scale),
          line("cast_model_outputs", shown(cast_model_outputs))};
}

}  // namespace booster
