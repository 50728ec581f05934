#include "mixed_precision/strategies/fp16_paddle.h"

#include "booster/config/builtins.h"
#include "booster/config/options/options.h"
#include "booster/config/options/scaler_options.h"

namespace booster {

namespace {

using Fleet = FleetAmpConfigs;

// Returns Fleet's loss scaler options with another interface's default values.
Fleet scaler_defaults(std::string_view preset) {
  const LossScalePolicy policy = loss_scale_preset(preset);
  return {.init_loss_scaling = policy.init,
          .incr_every_n_steps = policy.growth_interval,
          .decr_every_n_nan_or_inf = policy.hysteresis,
          .incr_ratio = policy.growth,
          .decr_ratio = policy.backoff,
          .use_dynamic_loss_scaling = policy.dynamic};
}

OptionTable scaler_rows(const Fleet& defaults) {
  return {number_option("init_loss_scaling", defaults.init_loss_scaling, loss_scale_range,
                        "first loss scale"),
          number_option("incr_ratio", defaults.incr_ratio, above(1),
                        "factor after incr_every_n_steps finite steps"),
          number_option("decr_ratio", defaults.decr_ratio, {0, 1, true, true},
                        "factor after decr_every_n_nan_or_inf overflows"),
          integer_option("incr_every_n_steps", defaults.incr_every_n_steps, at_least(0),
                         "finite steps in a row before the scale grows; 0: never"),
          integer_option("decr_every_n_nan_or_inf", defaults.decr_every_n_nan_or_inf, at_least(0),
                         "overflows in a row before it backs off; 0: never"),
          boolean_option("use_dynamic_loss_scaling", defaults.use_dynamic_loss_scaling,
                         "false: the scale stays constant")};
}

// Pairs the rows of scaler_rows with the members, in order.
template <class Struct, class Number, class Count, class Flag>
std::vector<FieldRow<Struct>> scaler_fields(const OptionTable& rows, Number Struct::*init,
                                            Number Struct::*incr_ratio, Number Struct::*decr_ratio,
                                            Count Struct::*incr_every, Count Struct::*decr_every,
                                            Flag Struct::*dynamic) {
  return {field(rows[0], init),       field(rows[1], incr_ratio), field(rows[2], decr_ratio),
          field(rows[3], incr_every), field(rows[4], decr_every), field(rows[5], dynamic)};
}

template <class Struct>
std::vector<FieldRow<Struct>> list_fields() {
  return {field("custom_white_list", &Struct::custom_white_list,
                "more ops in 16 bits, by Paddle's op names"),
          field("custom_black_list", &Struct::custom_black_list,
                "more ops in f32, by Paddle's op names"),
          field("custom_black_varnames", &Struct::custom_black_varnames,
                "names of parameters, buffers, or layers (for all of theirs); ops with such an "
                "argument run in f32")};
}

template <class Row>
void append(std::vector<Row>& to, std::vector<Row> rows) {
  for (Row& row : rows) to.push_back(std::move(row));
}

FieldTable<Fleet> fleet_fields() {
  auto rows = scaler_fields(scaler_rows(Fleet()), &Fleet::init_loss_scaling, &Fleet::incr_ratio,
                            &Fleet::decr_ratio, &Fleet::incr_every_n_steps,
                            &Fleet::decr_every_n_nan_or_inf, &Fleet::use_dynamic_loss_scaling);
  append(rows, list_fields<Fleet>());
  append(rows, {field("use_pure_fp16", &Fleet::use_pure_fp16, "level O2, without masters"),
                field("use_fp16_guard", &Fleet::use_fp16_guard,
                      "O2: ops outside of an FP16Guard stay f32"),
                field("use_optimizer_fp16", &Fleet::use_optimizer_fp16, "accepted; has no effect"),
                field("use_pure_bf16", &Fleet::use_pure_bf16, "level O2 in bfloat16")});
  return rows;
}

std::optional<Fleet> fleet_configs(const OptionValues& values) {
  const auto given = values.given<nlohmann::json>("amp_configs");
  if (!given) return {};
  return fleet_fields().read(OptionValues(*given));
}

using Paddle = FP16PaddleOptions;

// Returns rows with both defaults in the descriptions, because the meaning of null depends on
// use_pure_fp16.
OptionTable scaler_rows_with_both_defaults() {
  OptionTable options = scaler_rows(scaler_defaults("paddle_dynamic"));
  const OptionTable pure = scaler_rows(scaler_defaults("fleet"));
  for (size_t i = 0; i < options.size(); ++i) {
    const auto usual = options[i].default_value.dump(), other = pure[i].default_value.dump();
    options[i].description += "; null: " + usual;
    if (other != usual) options[i].description += ", " + other + " with use_pure_fp16";
  }
  return options;
}

FieldRow<Paddle> save_dtype() {
  return {
      or_null(choice_option("save_dtype", "float32", {"float16", "bfloat16", "float32", "float64"},
                            "dtype of weights in checkpoints; null: their training dtype")),
      [](Paddle& fields, const OptionValues& values) {
        fields.save_dtype = values.given<std::string>("save_dtype").value_or("");
      }};
}

FieldRow<Paddle> amp_configs() {
  return {object_option("amp_configs", fleet_fields().options(),
                        "Fleet's amp_configs, instead of these options"),
          [](Paddle& fields, const OptionValues& values) {
            fields.amp_configs = fleet_configs(values);
          }};
}

FieldRow<Paddle> flag_or_null(const char* name, std::optional<bool> Paddle::*member,
                              const char* description) {
  return field(boolean_option(name, true, description), member);
}

FieldTable<Paddle> paddle_fields() {
  std::vector<FieldRow<Paddle>> rows = {
      field("level", &Paddle::level, {"O0", "OD", "O1", "O2"},
            "O0: f32; OD: white ops in 16 bits; O1: by lists; O2: a 16-bit model"),
      field("dtype", &Paddle::dtype, {"float16", "bfloat16"}, "the 16-bit dtype")};
  append(rows, list_fields<Paddle>());
  append(
      rows,
      {flag_or_null("use_promote", &Paddle::use_promote,
                    "O2: unlisted ops run in f32 if an argument is f32, else all in 16 bits; null: "
                    "true, false with use_pure_fp16"),
       flag_or_null("master_weight", &Paddle::master_weight,
                    "O2: f32 masters; null: true, false with use_pure_fp16"),
       field("master_grad", &Paddle::master_grad, "gradients of 16-bit parameters add up in f32"),
       field("excluded_layers", &Paddle::excluded_layers,
             "O2: layers that stay f32, by name (with all below) or kind"),
       save_dtype(),
       field("use_pure_fp16", &Paddle::use_pure_fp16,
             "level O2 of Paddle's static graph, with its scaler's defaults"),
       flag_or_null("use_fp16_guard", &Paddle::use_fp16_guard,
                    "O2: ops outside of an FP16Guard stay f32; null: same as use_pure_fp16")});
  append(rows, scaler_fields(scaler_rows_with_both_defaults(), &Paddle::init_loss_scaling,
                             &Paddle::incr_ratio, &Paddle::decr_ratio, &Paddle::incr_every_n_steps,
                             &Paddle::decr_every_n_nan_or_inf, &Paddle::use_dynamic_loss_scaling));
  append(rows, {amp_configs()});
  return rows;
}

// Returns the level that results from the options.
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
// Returns true for bf16 without a loss scale. Paddle scales a bf16 loss only by a fixed scale in
// the dynamic graph.
bool is_unscaled_bf16(const OptionValues& values) {
  const bool scales = is_fixed(values) && !values.get<bool>("use_pure_fp16");
  return values.get<std::string>("dtype") == "bfloat16" && !scales;
}
bool is_pure_bf16(const OptionValues& values) { return values.get<bool>("use_pure_bf16"); }

Condition never(const char* interval) {
  return [=](const OptionValues& values) { return values.given<int64_t>(interval) == 0; };
}

// Returns the rows that plain options and amp_configs share.
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

// Returns the same rows for options in amp_configs.
IdleTable in_amp_configs(IdleTable table) {
  for (IdleOptions& row : table) {
    for (std::string& name : row.names) name = "amp_configs." + name;
    row.when = [when = row.when](const OptionValues& values) {
      return when(OptionValues(values.values().at("amp_configs")));
    };
  }
  return table;
}

IdleTable idle_paddle_options() {
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
  for (const IdleTable& more :
       {idle_scaler_options(is_unscaled_bf16), in_amp_configs(idle_scaler_options(is_pure_bf16))})
    table.insert(table.end(), more.begin(), more.end());
  return table;
}

}  // namespace

RegistryEntry<Precision> fp16_paddle_strategy() {
  return {.name = "fp16_paddle",
          .description = "PaddlePaddle's amp: levels O0, OD, O1 and O2, and Fleet's amp_configs",
          .options = paddle_fields().options(),
          .make = maker<FP16Paddle>(paddle_fields()),
          .idle = idle_paddle_options(),
          .product_dtype = "fp16"};
}

}  // namespace booster
