#include "booster/config/from_config.h"

#include "booster/config/tables/lr_schedulers.h"
#include "booster/config/tables/models.h"
#include "booster/config/tables/optimizers.h"

namespace booster {

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

}  // namespace booster
