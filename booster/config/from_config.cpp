#include "booster/config/config.h"

#include "booster/config/check_together.h"
#include "booster/config/registry.h"
#include "booster/config/tables/lr_schedulers.h"
#include "booster/config/tables/model_start.h"
#include "booster/config/tables/optimizers.h"
#include "booster/training/boosted.h"
#include "kernels/device/memory.h"
#include "mixed_precision/interface/precision.h"
#include "parallel/mesh.h"

#include <fmt/format.h>

#include <algorithm>

namespace booster {

namespace {

// Makes the config's optimizer for a single element.
Optimizer small_optimizer(const Config& config) {
  const OptionValues values = config.options("optimizer");
  return entry_of(optimizer_entries(), values).make(Parameters{{"x", zeros({1})}}, values);
}

// Tries the scheduler. The step count is unknown until the data is open, so it assumes the maximum
// unless the schedule gives one.
void try_lr_scheduler(const Config& config, const Mistakes& mistakes) {
  const OptionValues values = config.options("lr_scheduler");
  const int64_t own = values.has("total_steps") ? values.get<int64_t>("total_steps") : 0;
  const Optimizer optimizer = small_optimizer(mistakes.any_in("optimizer") ? Config() : config);
  make_lr_scheduler(config, optimizer, own > 0 ? own : most_scheduled_steps);
}

// Suggests a device instead of a GPU that does not exist.
std::string wanted_devices(bool by_rank, int count) {
  if (count == 0) return "cpu";
  if (by_rank) return fmt::format("at most {} ranks on this machine, one for each", count);
  return count == 1 ? "cpu or cuda:0" : fmt::format("cpu or cuda:0 to cuda:{}", count - 1);
}

void check_device(const Config& config, Mistakes& mistakes) {
  const Device device = device_of(config);
  if (device == Device{}) return;
  const int count = kernels::cuda_device_count();
  if (device.index < count) return;
  const auto name = config.get<std::string>("device");
  const bool by_rank = name == "cuda" && device.index > 0;
  mistakes.add(
      "device",
      fmt::format(
          "this GPU is not usable; got {}{} and {} GPUs, want {} (`booster doctor` lists the GPUs)",
          name, by_rank ? fmt::format(" on local rank {}", device.index) : "", count,
          wanted_devices(by_rank, count)));
}

ParameterGroups groups_of(const Model& model, const OptionValues& values) {
  const auto decay = values.get<double>("layer_decay");
  if (decay == 1) return model.parameters();
  return layer_decay_groups(model, {.lr = values.get<double>("lr"),
                                    .weight_decay = values.get<double>("weight_decay"),
                                    .layer_decay = decay});
}

}  // namespace

Device device_of(const Config& config) {
  const auto name = config.get<std::string>("device");
  if (!name.starts_with("cuda")) return {};
  const size_t colon = name.find(':');
  const int index =
      colon == name.npos ? launch_from_env().local_rank : std::stoi(name.substr(colon + 1));
  return Device::cuda(index);
}

Model make_model(const Config& config,
                 const std::function<void(const std::string&)>& report) {
  const OptionValues values = config.options("model");
  Model model = model_registry().make(values);
  start(model, values, report);
  if (const Device device = device_of(config); device != Device{}) model->to(device);
  return model;
}

Optimizer make_optimizer(const Config& config, const Model& model) {
  const OptionValues values = config.options("optimizer");
  return entry_of(optimizer_entries(), values).make(groups_of(model, values), values);
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
  check_device(config, mistakes);
  attempt("booster.plugin", [](const OptionValues& values) {
    const auto& plugin = plugin_registry().find(values.get<std::string>("name"));
    if (plugin.layout) plugin.layout(values);
  });
  attempt("booster.mixed_precision",
          [](const OptionValues& values) { precision_registry().make(values); });
  attempt("model", [](const OptionValues& values) {
    const auto& model = model_registry().find(values.get<std::string>("name"));
    if (model.check) model.check(values);
  });
  attempt("optimizer", [&](const OptionValues&) { small_optimizer(config); });
  attempt("lr_scheduler", [&](const OptionValues&) { try_lr_scheduler(config, mistakes); });
}

}  // namespace booster
