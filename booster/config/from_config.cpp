#include "booster/config/from_config.h"

#include "booster/config/mistakes.h"
#include "booster/config/registry.h"
#include "booster/config/tables/lr_schedulers.h"
#include "booster/config/tables/models.h"
#include "booster/config/tables/optimizers.h"
#include "mixed_precision/precision.h"

namespace booster {

namespace {

// The optimizer of a config, for one number.
Optimizer small_optimizer(const Config& config) {
  const OptionValues values = config.options("optimizer");
  return entry_of(optimizer_entries(), values).make(Parameters({{"x", zeros({1})}}), values);
}

// How long a training is, is not known before its data are: as long as any, unless the schedule
// itself says how long.
void try_lr_scheduler(const Config& config, const Mistakes& mistakes) {
  const OptionValues values = config.options("lr_scheduler");
  const int64_t own = values.has("total_steps") ? values.get<int64_t>("total_steps") : 0;
  const Optimizer optimizer =
      small_optimizer(mistakes.any_in("optimizer") ? Config() : config);
  make_lr_scheduler(config, optimizer, own > 0 ? own : most_scheduled_steps);
}

}  // namespace

Model make_model(const Config& config) {
  const OptionValues values = config.options("model");
  return entry_of(model_entries(), values).make(values);
}

Optimizer make_optimizer(const Config& config, const Model& model) {
  const OptionValues values = config.options("optimizer");
  return entry_of(optimizer_entries(), values).make(model.parameters(), values);
}

LRScheduler make_lr_scheduler(const Config& config, const Optimizer& optimizer,
                              int64_t training_steps) {
  const OptionValues values = config.options("lr_scheduler");
  return entry_of(lr_scheduler_entries(), values).make(optimizer, values, training_steps);
}

void check_together(const Config& config, Mistakes& mistakes) {
  const auto attempt = [&](const char* section, const auto& make) {
    if (mistakes.any_in(section)) return;
    try {
      make(config.options(section));
    } catch (const Error& error) {
      mistakes.add(section, error.what());
    }
  };
  if (config.get<std::string>("device") == "cuda")
    mistakes.add("device", "models live on the CPU in this version; got cuda, want auto or cpu");
  attempt("booster.plugin", [](const OptionValues& values) {
    const auto& plugin = plugin_registry().find(values.get<std::string>("name"));
    if (plugin.layout) plugin.layout(values);
  });
  attempt("booster.mixed_precision",
          [](const OptionValues& values) { precision_registry().make(values); });
  attempt("model", [](const OptionValues& values) {
    if (const auto& check = entry_of(model_entries(), values).check) check(values);
  });
  attempt("optimizer", [&](const OptionValues&) { small_optimizer(config); });
  attempt("lr_scheduler", [&](const OptionValues&) { try_lr_scheduler(config, mistakes); });
}

}  // namespace booster
