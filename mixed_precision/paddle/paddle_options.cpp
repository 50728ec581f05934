#include "mixed_precision/paddle/paddle_options.h"

#include "mixed_precision/scaling/loss_scale_presets.h"

#include <fmt/format.h>

#include <cmath>

namespace booster {

namespace {

constexpr const char* level_names[] = {"O0", "OD", "O1", "O2"};

const char* paddle_name(DType dtype) {
  switch (dtype) {
    case DType::f16: return "float16";
    case DType::bf16: return "bfloat16";
    case DType::f64: return "float64";
    default: return "float32";
  }
}

DType dtype_named(const char* option, const std::string& name, const std::vector<DType>& legal) {
  std::vector<std::string> names;
  for (const DType dtype : legal) {
    if (name == paddle_name(dtype)) return dtype;
    names.push_back(paddle_name(dtype));
  }
  fail("fp16_paddle: {}: unknown dtype; got {}{}", option, name, legal_names(name, names));
}

void check_scaler(const LossScalePolicy& scaler) {
  const auto narrow = static_cast<float>(scaler.init);
  check(narrow > 0 && std::isfinite(narrow),
        "fp16_paddle: init_loss_scaling must be > 0 and finite in f32; got {}", scaler.init);
  check(scaler.growth > 1, "fp16_paddle: incr_ratio must be > 1; got {}", scaler.growth);
  check(scaler.backoff > 0 && scaler.backoff < 1,
        "fp16_paddle: decr_ratio must be in (0, 1); got {}", scaler.backoff);
  check(scaler.growth_interval >= 0, "fp16_paddle: incr_every_n_steps must be >= 0; got {}",
        scaler.growth_interval);
  check(scaler.hysteresis >= 0, "fp16_paddle: decr_every_n_nan_or_inf must be >= 0; got {}",
        scaler.hysteresis);
}

LossScalePolicy scaler_of(const FP16PaddleOptions& o) {
  LossScalePolicy scaler = loss_scale_preset(o.use_pure_fp16 ? "fleet" : "paddle_dynamic");
  scaler.init = o.init_loss_scaling.value_or(scaler.init);
  scaler.growth = o.incr_ratio.value_or(scaler.growth);
  scaler.backoff = o.decr_ratio.value_or(scaler.backoff);
  scaler.growth_interval = o.incr_every_n_steps.value_or(scaler.growth_interval);
  scaler.hysteresis = o.decr_every_n_nan_or_inf.value_or(scaler.hysteresis);
  scaler.dynamic = o.use_dynamic_loss_scaling.value_or(true);
  return scaler;
}

// Expands amp_configs to options of the static interface, to which Fleet passes them.
FP16PaddleOptions expanded(FP16PaddleOptions o) {
  const FleetAmpConfigs fleet = *std::exchange(o.amp_configs, {});
  o.level = fleet.use_pure_fp16 || fleet.use_pure_bf16 ? "O2" : "O1";
  o.dtype = fleet.use_pure_bf16 ? "bfloat16" : "float16";
  o.custom_white_list = fleet.custom_white_list;
  o.custom_black_list = fleet.custom_black_list;
  o.custom_black_varnames = fleet.custom_black_varnames;
  o.use_promote = false;
  o.use_pure_fp16 = true;  // selects the older interface, whatever the level
  o.use_fp16_guard = fleet.use_fp16_guard;
  o.init_loss_scaling = fleet.init_loss_scaling;
  o.incr_ratio = fleet.incr_ratio;
  o.decr_ratio = fleet.decr_ratio;
  o.incr_every_n_steps = fleet.incr_every_n_steps;
  o.decr_every_n_nan_or_inf = fleet.decr_every_n_nan_or_inf;
  o.use_dynamic_loss_scaling = fleet.use_dynamic_loss_scaling;
  return o;
}

// Throws if options that amp_configs sets are also given, because it would be unclear which apply.
void check_alone(const FP16PaddleOptions& o) {
  const FP16PaddleOptions plain;
  const std::pair<const char*, bool> given[] = {
      {"level", o.level != plain.level},
      {"dtype", o.dtype != plain.dtype},
      {"custom_white_list", !o.custom_white_list.empty()},
      {"custom_black_list", !o.custom_black_list.empty()},
      {"custom_black_varnames", !o.custom_black_varnames.empty()},
      {"use_promote", o.use_promote.has_value()},
      {"use_pure_fp16", o.use_pure_fp16},
      {"use_fp16_guard", o.use_fp16_guard.has_value()},
      {"init_loss_scaling", o.init_loss_scaling.has_value()},
      {"incr_ratio", o.incr_ratio.has_value()},
      {"decr_ratio", o.decr_ratio.has_value()},
      {"incr_every_n_steps", o.incr_every_n_steps.has_value()},
      {"decr_every_n_nan_or_inf", o.decr_every_n_nan_or_inf.has_value()},
      {"use_dynamic_loss_scaling", o.use_dynamic_loss_scaling.has_value()}};
  for (const auto& [name, is_given] : given)
    check(!is_given,
          "fp16_paddle: {} is given together with amp_configs, which sets it; want it only in "
          "amp_configs (use_pure_fp16 and use_pure_bf16 determine level and dtype)",
          name);
}

// Turns off scaling as Paddle does: it never scales a bf16 loss dynamically, nor at all in the
// static interfaces.
void settle_bf16(PaddleSettings& settings, bool is_static, bool asked) {
  if (settings.lower != DType::bf16 || !(settings.scaler.dynamic || is_static)) return;
  settings.scales = false;
  if (asked)
    settings.messages.push_back(
        "loss scaling is off: bfloat16 has float32's range, and Paddle scales only float16");
}

PaddleSettings settled(const FP16PaddleOptions& o, bool is_static) {
  PaddleSettings settings;
  settings.level = paddle_level(o.level);
  settings.lower = dtype_named("dtype", o.dtype, {DType::f16, DType::bf16});
  settings.lists = {o.custom_white_list, o.custom_black_list, o.use_promote.value_or(!is_static),
                    is_static};
  for (const std::string& name : ineffective_names(settings.lists))
    settings.messages.push_back(
        fmt::format("{} in a custom list has no effect, as in Paddle: no operation looks it up "
                    "(matrix products look up matmul_v2)",
                    name));
  settings.black_varnames = o.custom_black_varnames;
  const bool pure = settings.level == PaddleLevel::O2;
  settings.guard = pure && o.use_fp16_guard.value_or(is_static);
  settings.masters = o.master_weight.value_or(!is_static);
  settings.master_grad = o.master_grad;
  settings.excluded_layers = o.excluded_layers;
  if (!o.save_dtype.empty())
    settings.save_dtype = dtype_named("save_dtype", o.save_dtype,
                                      {DType::f16, DType::bf16, DType::f32, DType::f64});
  settings.scaler = scaler_of(o);
  check_scaler(settings.scaler);
  settings.scales = settings.level != PaddleLevel::O0;
  settle_bf16(settings, is_static, o.use_dynamic_loss_scaling.value_or(false));
  return settings;
}

std::string in_brackets(const std::vector<std::string>& names) {
  return fmt::format("[{}]", fmt::join(names, ", "));
}

}  // namespace

PaddleSettings resolved(const FP16PaddleOptions& options) {
  if (options.amp_configs) {
    check_alone(options);
    return settled(expanded(options), true);
  }
  FP16PaddleOptions o = options;
  if (o.use_pure_fp16) {
    const PaddleLevel level = paddle_level(o.level);
    check(level == PaddleLevel::O1 || level == PaddleLevel::O2,
          "fp16_paddle: use_pure_fp16 = true means level O2; got level {}", o.level);
    o.level = "O2";
  }
  return settled(o, o.use_pure_fp16);
}

std::string describe(const PaddleSettings& s) {
  std::string text = fmt::format(
      "level {}, dtype {}, custom_white_list {}, custom_black_list {}, custom_black_varnames {}, "
      "use_promote {}, use_fp16_guard {}, master_weight {}, master_grad {}",
      level_names[static_cast<int>(s.level)], paddle_name(s.lower), in_brackets(s.lists.white),
      in_brackets(s.lists.black), in_brackets(s.black_varnames), s.lists.use_promote, s.guard,
      s.converts_model() && s.masters, s.master_grad);
  if (!s.scales) return text + ", no loss scaling";
  text += fmt::format(", init_loss_scaling {}, use_dynamic_loss_scaling {}", s.scaler.init,
                      s.scaler.dynamic);
  if (!s.scaler.dynamic) return text;
  return text + fmt::format(", incr_ratio {}, incr_every_n_steps {}, decr_ratio {}, "
                            "decr_every_n_nan_or_inf {}, smallest scale {}",
                            s.scaler.growth, s.scaler.growth_interval, s.scaler.backoff,
                            s.scaler.hysteresis, s.scaler.minimum);
}

}  // namespace booster
