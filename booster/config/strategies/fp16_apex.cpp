#include "mixed_precision/strategies/fp16_apex.h"

#include "booster/config/builtins.h"
#include "booster/config/options/options.h"

namespace booster {

namespace {

using Apex = FP16ApexOptions;

// Returns a property that the config may leave to the level.
ApexValue property_value(const OptionValues& values, const std::string& name) {
  const auto& value = values.values().at(name);
  if (value.is_null()) return {};
  if (value.is_boolean()) return value.get<bool>();
  if (value.is_number()) return value.get<double>();
  return value.get<std::string>();
}

FieldRow<Apex> property(const char* name, ApexValue Apex::*member, const char* legal,
                        const char* description) {
  return {scalar_option(name, legal, description), [=](Apex& fields, const OptionValues& values) {
            fields.*member = property_value(values, name);
          }};
}

FieldRow<Apex> level() {
  auto row = field("opt_level", &Apex::opt_level,
                   "O0: fp32; O1: ops cast by lists; O2: f16 model, f32 masters; O3: f16");
  row.option.legal = "O0, O1, O2 or O3";  // the strategy's own error describes a bad value best
  return row;
}

FieldTable<Apex> apex_fields() {
  const char* flag = "true, false, \"True\" or \"False\"";
  return {field("enabled", &Apex::enabled, "false: as fp32"),
          level(),
          property("cast_model_type", &Apex::cast_model_type, "fp16, fp32 or false",
                   "dtype of the model; null: fp32 in O0, none in O1, fp16 in O2 and O3"),
          property("patch_torch_functions", &Apex::patch_torch_functions, flag,
                   "cast around ops; null: true only in O1"),
          property("keep_batchnorm_fp32", &Apex::keep_batchnorm_fp32, flag,
                   "batch normalisation stays f32; null: true in O2, false in O3"),
          property("master_weights", &Apex::master_weights, flag,
                   "f32 masters; null: true in O2, false in O0 and O3"),
          property("loss_scale", &Apex::loss_scale, "\"dynamic\" or a number > 0",
                   "null: dynamic in O1 and O2, 1 in O0 and O3"),
          property("cast_model_outputs", &Apex::cast_model_outputs, "fp16 or fp32",
                   "dtype of outputs; null: fp32, but unchanged in O1"),
          field("num_losses", &Apex::num_losses, between(1, 1000),
                "loss scalers, chosen by the loss_id of backward"),
          field("verbosity", &Apex::verbosity, between(0, 2),
                "0: silent, 1: prints the properties, 2: also casts of O1 and, with the next loss, "
                "skipped steps"),
          field("min_loss_scale", &Apex::min_loss_scale, at_least(0),
                "smallest dynamic scale; 0: no limit"),
          field("max_loss_scale", &Apex::max_loss_scale, above(0), "largest dynamic scale"),
          field("half_functions", &Apex::half_functions, "O1: more ops that run in f16"),
          field("float_functions", &Apex::float_functions, "O1: more ops that run in f32"),
          field("promote_functions", &Apex::promote_functions,
                "O1: more ops that take the widest dtype")};
}

// Returns whether the options amount to a fixed scale.
bool has_fixed_scale(const OptionValues& values) {
  const ApexValue scale = property_value(values, "loss_scale");
  const std::string level = values.get<std::string>("opt_level");
  return scale.given() ? scale.to_string() != "dynamic" : level == "O0" || level == "O3";
}

bool casts_no_ops(const OptionValues& values) {
  return values.get<std::string>("opt_level") != "O1";
}

std::vector<std::string> all_but_enabled() {
  std::vector<std::string> names;
  for (const Option& option : apex_fields().options())
    if (option.name != "enabled") names.push_back(option.name);
  return names;
}

}  // namespace

RegistryEntry<Precision> fp16_apex_strategy() {
  return {
      .name = "fp16_apex",
      .description = "NVIDIA Apex's amp: levels O0, O1, O2 and O3",
      .options = apex_fields().options(),
      .make = maker<FP16Apex>(apex_fields()),
      .idle = {{all_but_enabled(), option_is("enabled", false), "with enabled = false"},
               {{"half_functions", "float_functions", "promote_functions"},
                casts_no_ops,
                "at a level other than O1"},
               {{"min_loss_scale", "max_loss_scale"}, has_fixed_scale, "with a fixed loss_scale"}},
      .product_dtype = "fp16"};
}

}  // namespace booster
