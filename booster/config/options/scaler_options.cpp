#include "booster/config/options/scaler_options.h"

#include <cmath>
#include <functional>

namespace booster {

namespace {

using Policy = LossScalePolicy;
using Json = nlohmann::json;

// An option and the policy field that it sets.
struct Row {
  Option option;
  std::function<void(Policy&, const Json&)> apply;
};
using Rows = std::vector<Row>;

const ValueRange positive = above(0), fraction = {0, 1, true, true}, growing = above(1);

// Returns a limit as a number; "none" means 0.
double number_of(const Json& value) { return value.is_number() ? value.get<double>() : 0; }

Row number(const Policy& policy, std::string name, double Policy::*field, ValueRange range,
           std::string description) {
  return {number_option(std::move(name), policy.*field, range, std::move(description)),
          [=](Policy& changed, const Json& value) { changed.*field = value.get<double>(); }};
}
Row count(const Policy& policy, std::string name, int64_t Policy::*field, ValueRange range,
          std::string description) {
  return {integer_option(std::move(name), policy.*field, range, std::move(description)),
          [=](Policy& changed, const Json& value) { changed.*field = value.get<int64_t>(); }};
}
Row limit(const Policy& policy, std::string name, double Policy::*field, std::string description) {
  return {number_or_name_option(std::move(name), policy.*field, at_least(0), {"none"},
                                std::move(description)),
          [=](Policy& changed, const Json& value) { changed.*field = number_of(value); }};
}
Row dynamic_or_static(std::string name) {
  return {boolean_option(std::move(name), true, "false: the scale stays constant"),
          [](Policy& policy, const Json& value) { policy.dynamic = value.get<bool>(); }};
}

// Returns the row that chooses how bad steps are counted: between growths, or consecutively.
// Without hysteresis there are none.
Row hysteresis_mode(const Policy& policy) {
  const bool consecutive = policy.refill == Refill::every_finite_step;
  return {choice_option("hysteresis_mode", consecutive ? "consecutive" : "since_growth",
                        {"since_growth", "consecutive"}, "event that refills the hysteresis"),
          [](Policy& changed, const Json& value) {
            const bool in_a_row = value.get<std::string>() == "consecutive";
            changed.refill = in_a_row ? Refill::every_finite_step : Refill::on_growth;
            if (changed.hysteresis > 1) changed.after_backoff = AfterBackoff::count;
          }};
}

Rows torch_rows(const Policy& policy) {
  return {number(policy, "init_scale", &Policy::init, positive, "first scale"),
          number(policy, "growth_factor", &Policy::growth, growing, "factor of growth"),
          number(policy, "backoff_factor", &Policy::backoff, fraction, "factor of back-off"),
          count(policy, "growth_interval", &Policy::growth_interval, at_least(0),
                "finite steps in a row before growth; 0: never"),
          count(policy, "hysteresis", &Policy::hysteresis, at_least(1),
                "overflows before back-off (not an option of torch)"),
          hysteresis_mode(policy)};
}

Rows apex_rows(const Policy& policy) {
  return {number(policy, "init_scale", &Policy::init, positive, "first dynamic scale"),
          count(policy, "scale_window", &Policy::growth_interval, at_least(0),
                "finite steps in a row before growth; 0: never"),
          limit(policy, "min_loss_scale", &Policy::minimum, "least dynamic scale"),
          limit(policy, "max_loss_scale", &Policy::maximum, "largest dynamic scale"),
          {number_or_name_option("loss_scale", "dynamic", positive, {"dynamic"},
                                 "a number: a constant scale, and no skipped steps"),
           [](Policy& changed, const Json& value) {
             changed.dynamic = changed.skips = !value.is_number();
             if (value.is_number())
               changed.init = value.get<double>();
             else if (changed.maximum > 0)
               changed.init = std::min(changed.init, changed.maximum);
           }}};
}

Rows paddle_rows(const Policy& policy) {
  return {number(policy, "init_loss_scaling", &Policy::init, positive, "first scale"),
          number(policy, "incr_ratio", &Policy::growth, growing, "factor of growth"),
          number(policy, "decr_ratio", &Policy::backoff, fraction, "factor of back-off"),
          count(policy, "incr_every_n_steps", &Policy::growth_interval, at_least(0),
                "finite steps in a row before growth; 0: never"),
          count(policy, "decr_every_n_nan_or_inf", &Policy::hysteresis, at_least(0),
                "overflows in a row before back-off; 0: never"),
          dynamic_or_static("use_dynamic_loss_scaling")};
}

Rows colossal_rows(const Policy& policy) {
  return {
      number(policy, "initial_scale", &Policy::init, positive, "first scale"),
      number(policy, "growth_factor", &Policy::growth, growing, "factor of growth"),
      number(policy, "backoff_factor", &Policy::backoff, fraction, "factor of back-off"),
      count(policy, "growth_interval", &Policy::growth_interval, at_least(0),
            "finite steps in a row before growth; 0: never"),
      limit(policy, "min_scale", &Policy::minimum, "least scale"),
      limit(policy, "max_scale", &Policy::maximum, "largest scale"),
      count(policy, "hysteresis", &Policy::hysteresis, at_least(0), "overflows before back-off"),
      hysteresis_mode(policy)};
}

Rows megatron_rows(const Policy& policy) {
  return {
      number(policy, "initial_scale", &Policy::init, positive, "first scale"),
      number(policy, "min_scale", &Policy::minimum, positive, "least scale"),
      number(policy, "growth_factor", &Policy::growth, growing, "factor of growth"),
      number(policy, "backoff_factor", &Policy::backoff, fraction, "factor of back-off"),
      count(policy, "growth_interval", &Policy::growth_interval, at_least(1),
            "finite steps in a row before growth"),
      count(policy, "hysteresis", &Policy::hysteresis, at_least(1), "overflows before back-off"),
      hysteresis_mode(policy)};
}

Rows deepspeed_rows(const Policy& policy) {
  return {
      {integer_option("initial_scale_power", 16, between(-1000, 1000),
                      "exponent of the first dynamic scale, a power of 2"),
       [](Policy& changed, const Json& value) {
         changed.init = std::ldexp(1.0, value.get<int>());
       }},
      {number_option("loss_scale", 0, at_least(0), "constant scale; 0: dynamic"),
       [](Policy& changed, const Json& value) {
         changed.dynamic = value.get<double>() == 0;
         if (!changed.dynamic) changed.init = value.get<double>();
       }},
      count(policy, "loss_scale_window", &Policy::growth_interval, at_least(1),
            "finite steps before growth, without the first after an overflow"),
      count(policy, "hysteresis", &Policy::hysteresis, at_least(1), "overflows before back-off"),
      {boolean_option("consecutive_hysteresis", false,
                      "every finite step refills the hysteresis, not only growth"),
       [](Policy& changed, const Json& value) {
         changed.refill = value.get<bool>() ? Refill::every_finite_step : Refill::on_growth;
       }},
      number(policy, "min_loss_scale", &Policy::minimum, positive, "least scale"),
      {boolean_option("raise_error_at_min_scale", true,
                      "an overflow at the smallest scale ends the training"),
       [](Policy& changed, const Json& value) { changed.ends_at_minimum = value.get<bool>(); }}};
}

Rows rows_of(std::string_view preset) {
  const Policy policy = loss_scale_preset(preset);
  if (preset == "torch") return torch_rows(policy);
  if (preset == "apex") return apex_rows(policy);
  if (preset == "colossal") return colossal_rows(policy);
  if (preset == "megatron") return megatron_rows(policy);
  if (preset == "deepspeed") return deepspeed_rows(policy);
  return paddle_rows(policy);
}

}  // namespace

OptionTable scaler_options(std::string_view preset) {
  OptionTable table;
  for (const Row& row : rows_of(preset)) table.push_back(row.option);
  return table;
}

LossScalePolicy scaler_policy(std::string_view preset, const OptionValues& values) {
  LossScalePolicy policy = loss_scale_preset(preset);
  for (const Row& row : rows_of(preset)) row.apply(policy, values.values().at(row.option.name));
  const bool has_limits = preset == "colossal" || preset == "megatron";
  check(!has_limits || policy.minimum <= policy.init,
        "{}: min_scale must be <= initial_scale; got {} and {}", preset, policy.minimum,
        policy.init);
  check(!has_limits || policy.maximum == 0 || policy.maximum >= policy.init,
        "{}: max_scale must be >= initial_scale; got {} and {}", preset, policy.maximum,
        policy.init);
  return policy;
}

}  // namespace booster
