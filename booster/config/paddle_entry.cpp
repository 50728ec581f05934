#include "booster/config/paddle_entry.h"

#include "booster/config/scaler_options.h"
#include "mixed_precision/fp16_paddle.h"

namespace booster {

namespace {

using Names = std::vector<std::string>;

std::optional<FleetAmpConfigs> fleet_configs(const OptionValues& values) {
  const auto given = values.given<nlohmann::json>("amp_configs");
  if (!given) return {};
  const OptionValues v(*given);
  return FleetAmpConfigs{
      .init_loss_scaling = v.get<double>("init_loss_scaling"),
      .incr_every_n_steps = v.get<int64_t>("incr_every_n_steps"),
      .decr_every_n_nan_or_inf = v.get<int64_t>("decr_every_n_nan_or_inf"),
      .incr_ratio = v.get<double>("incr_ratio"),
      .decr_ratio = v.get<double>("decr_ratio"),
      .use_dynamic_loss_scaling = v.get<bool>("use_dynamic_loss_scaling"),
      .custom_white_list = v.get<Names>("custom_white_list"),
      .custom_black_list = v.get<Names>("custom_black_list"),
      .custom_black_varnames = v.get<Names>("custom_black_varnames"),
      .use_pure_fp16 = v.get<bool>("use_pure_fp16"),
      .use_fp16_guard = v.get<bool>("use_fp16_guard"),
      .use_optimizer_fp16 = v.get<bool>("use_optimizer_fp16"),
      .use_pure_bf16 = v.get<bool>("use_pure_bf16")};
}

std::unique_ptr<Precision> make_fp16_paddle(const OptionValues& values) {
  return std::make_unique<FP16PaddleMixedPrecision>(FP16PaddleOptions{
      .level = values.get<std::string>("level"),
      .dtype = values.get<std::string>("dtype"),
      .custom_white_list = values.get<Names>("custom_white_list"),
      .custom_black_list = values.get<Names>("custom_black_list"),
      .custom_black_varnames = values.get<Names>("custom_black_varnames"),
      .use_promote = values.given<bool>("use_promote"),
      .master_weight = values.given<bool>("master_weight"),
      .master_grad = values.get<bool>("master_grad"),
      .excluded_layers = values.get<Names>("excluded_layers"),
      .save_dtype = values.given<std::string>("save_dtype").value_or(""),
      .use_pure_fp16 = values.get<bool>("use_pure_fp16"),
      .use_fp16_guard = values.given<bool>("use_fp16_guard"),
      .init_loss_scaling = values.given<double>("init_loss_scaling"),
      .incr_ratio = values.given<double>("incr_ratio"),
      .decr_ratio = values.given<double>("decr_ratio"),
      .incr_every_n_steps = values.given<int64_t>("incr_every_n_steps"),
      .decr_every_n_nan_or_inf = values.given<int64_t>("decr_every_n_nan_or_inf"),
      .use_dynamic_loss_scaling = values.given<bool>("use_dynamic_loss_scaling"),
      .amp_configs = fleet_configs(values)});
}

struct ScalerDefaults {
  double init, decr_ratio;
  int64_t incr_every, decr_every;
};
constexpr ScalerDefaults dynamic_defaults = {65536, 0.5, 2000, 1};
constexpr ScalerDefaults static_defaults = {32768, 0.8, 1000, 2};

OptionTable scaler_options(const ScalerDefaults& d) {
  return {number_option("init_loss_scaling", d.init, loss_scale_range, "first loss scale"),
          number_option("incr_ratio", 2, above(1), "factor after incr_every_n_steps finite steps"),
          number_option("decr_ratio", d.decr_ratio, {0, 1, true, true},
                        "factor after decr_every_n_nan_or_inf overflows"),
          integer_option("incr_every_n_steps", d.incr_every, at_least(0),
                         "finite steps in a row before the scale grows; 0: never"),
          integer_option("decr_every_n_nan_or_inf", d.decr_every, at_least(0),
                         "overflows in a row before it backs off; 0: never"),
          boolean_option("use_dynamic_loss_scaling", true, "false: the scale stays")};
}

// Null unless given, since use_pure_fp16 has other defaults.
OptionTable scaler_options_or_null() {
  OptionTable options = scaler_options(dynamic_defaults);
  const OptionTable pure = scaler_options(static_defaults);
  for (size_t i = 0; i < options.size(); ++i) {
    const auto usual = options[i].default_value.dump(), other = pure[i].default_value.dump();
    options[i].description += "; null: " + usual;
    if (other != usual) options[i].description += ", " + other + " with use_pure_fp16";
    options[i] = or_null(std::move(options[i]));
  }
  return options;
}

OptionTable list_options() {
  return {texts_option("custom_white_list", {}, "more ops in 16 bits, by Paddle's op names"),
          texts_option("custom_black_list", {}, "more ops in f32, by Paddle's op names"),
          texts_option("custom_black_varnames", {},
                       "parameters, buffers, or layers for all of theirs; ops that take one run "
                       "in f32")};
}

void append(OptionTable& to, OptionTable rows) {
  for (Option& row : rows) to.push_back(std::move(row));
}

OptionTable fleet_options() {
  OptionTable options = scaler_options(static_defaults);
  append(options, list_options());
  append(options,
         {boolean_option("use_pure_fp16", false, "level O2, without masters"),
          boolean_option("use_fp16_guard", true, "O2: ops outside of an FP16Guard stay f32"),
          boolean_option("use_optimizer_fp16", false, "accepted; has no effect"),
          boolean_option("use_pure_bf16", false, "level O2 in bfloat16")});
  return options;
}

OptionTable fp16_paddle_options() {
  OptionTable options = {
      choice_option("level", "O1", {"O0", "OD", "O1", "O2"},
                    "O0: f32; OD: white ops in 16 bits; O1: by lists; O2: a 16-bit model"),
      choice_option("dtype", "float16", {"float16", "bfloat16"}, "the 16-bit dtype")};
  append(options, list_options());
  append(options,
         {or_null(boolean_option("use_promote", true,
                                 "O2, ops off the lists: f32 if an argument is, else all 16 bits; "
                                 "null: true, false with use_pure_fp16")),
          or_null(boolean_option("master_weight", true,
                                 "O2: f32 masters; null: true, false with use_pure_fp16")),
          boolean_option("master_grad", false,
                         "gradients of 16-bit parameters add up in f32"),
          texts_option("excluded_layers", {},
                       "O2: layers that stay f32, by name (with all below) or kind"),
          or_null(choice_option("save_dtype", "float32",
                                {"float16", "bfloat16", "float32", "float64"},
                                "dtype of weights in checkpoints; null: as they train")),
          boolean_option("use_pure_fp16", false,
                         "level O2 as Paddle's static graph has it, with its scaler's defaults"),
          or_null(boolean_option("use_fp16_guard", true,
                                 "O2: ops outside of an FP16Guard stay f32; null: as "
                                 "use_pure_fp16"))});
  append(options, scaler_options_or_null());
  options.push_back(object_option("amp_configs", fleet_options(),
                                  "Fleet's amp_configs as it stands, in place of these options"));
  return options;
}

// The level that the options resolve to.
PaddleLevel level_of(const OptionValues& values) {
  if (const auto fleet = fleet_configs(values))
    return fleet->use_pure_fp16 || fleet->use_pure_bf16 ? PaddleLevel::O2 : PaddleLevel::O1;
  const bool pure = values.get<bool>("use_pure_fp16");
  return pure ? PaddleLevel::O2 : paddle_level(values.get<std::string>("level"));
}

bool has_guard(const OptionValues& values) {
  if (const auto fleet = fleet_configs(values)) return fleet->use_fp16_guard;
  return values.given<bool>("use_fp16_guard").value_or(values.get<bool>("use_pure_fp16"));
}

using Condition = std::function<bool(const OptionValues&)>;

bool is_fixed(const OptionValues& values) {
  return !values.given<bool>("use_dynamic_loss_scaling").value_or(true);
}
// Paddle does not scale a bf16 loss, unless the dynamic graph's scaler is given a fixed scale.
bool is_unscaled_bf16(const OptionValues& values) {
  const bool scales = is_fixed(values) && !values.get<bool>("use_pure_fp16");
  return values.get<std::string>("dtype") == "bfloat16" && !scales;
}
bool is_pure_bf16(const OptionValues& values) { return values.get<bool>("use_pure_bf16"); }

Condition never(const char* interval) {
  return [=](const OptionValues& values) { return values.given<int64_t>(interval) == 0; };
}

// Rows that plain options and amp_configs share.
IdleTable idle_scaler_options(Condition is_unscaled) {
  return {{{"init_loss_scaling", "incr_ratio", "decr_ratio", "incr_every_n_steps",
            "decr_every_n_nan_or_inf"},
           std::move(is_unscaled),
           "in bfloat16, whose loss is not scaled"},
          {{"incr_ratio", "decr_ratio", "incr_every_n_steps", "decr_every_n_nan_or_inf"},
           is_fixed,
           "with use_dynamic_loss_scaling = false"},
          {{"incr_ratio"}, never("incr_every_n_steps"), "with incr_every_n_steps = 0"},
          {{"decr_ratio"}, never("decr_every_n_nan_or_inf"), "with decr_every_n_nan_or_inf = 0"}};
}

// The same rows for options inside amp_configs.
IdleTable in_amp_configs(IdleTable table) {
  for (IdleOptions& row : table) {
    for (std::string& name : row.names) name = "amp_configs." + name;
    row.when = [when = row.when](const OptionValues& values) {
      return when(OptionValues(values.values().at("amp_configs")));
    };
  }
  return table;
}

IdleTable idle_options() {
  IdleTable table = {
      {{"dtype", "custom_white_list", "custom_black_list", "custom_black_varnames",
        "init_loss_scaling", "incr_ratio", "decr_ratio", "incr_every_n_steps",
        "decr_every_n_nan_or_inf", "use_dynamic_loss_scaling"},
       [](const OptionValues& values) { return level_of(values) == PaddleLevel::O0; },
       "at level O0"},
      {{"use_promote", "use_fp16_guard", "amp_configs.use_fp16_guard", "master_weight",
        "master_grad", "excluded_layers"},
       [](const OptionValues& values) { return level_of(values) != PaddleLevel::O2; },
       "at a level other than O2"},
      {{"master_weight", "master_grad", "excluded_layers"},
       has_guard,
       "while use_fp16_guard keeps the model in f32"},
      {{"amp_configs.use_optimizer_fp16"},
       [](const OptionValues&) { return true; },
       "outside automatic parallelism"}};
  for (const IdleTable& more : {idle_scaler_options(is_unscaled_bf16),
                                in_amp_configs(idle_scaler_options(is_pure_bf16))})
    table.insert(table.end(), more.begin(), more.end());
  return table;
}

}  // namespace

RegistryEntry<Precision> fp16_paddle_entry() {
  return {"fp16_paddle", "PaddlePaddle's amp: levels O0, OD, O1 and O2, and Fleet's amp_configs",
          fp16_paddle_options(), make_fp16_paddle, idle_options()};
}

}  // namespace booster
