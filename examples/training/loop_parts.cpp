#include "examples/training/loop_parts.h"

#include "examples/training/metrics.h"

#include <algorithm>
#include <string>

namespace example {

using namespace booster;

namespace {

// Returns the criterion for one of `parts` batches: its share of the step's loss. With loss_mean
// "rows" booster weights the batches itself.
Criterion share_of_step(const Booster& booster, const Criterion& loss_fn, int64_t parts) {
  if (parts == 1 || booster.loss_mean() == "rows") return loss_fn;
  return [loss_fn, parts](const Tensor& y, const Tensor& target) {
    return loss_fn(y, target) / static_cast<double>(parts);
  };
}

}  // namespace

void check_all_ranks_train(const Booster& booster, const World& world) {
  const Plugin& plugin = booster.plugin();
  check(plugin.group().size() == world.size,
        "booster.plugin: {} trains on {} rank; got {} ranks, want torch_ddp", plugin.name(),
        plugin.group().size(), world.size);
}

int64_t steps_of_epoch(const DataLoader& data, int64_t accumulate) {
  return (data.size() + accumulate - 1) / accumulate;
}

int64_t parts_of_step(const DataLoader& data, int64_t accumulate) {
  return std::min(accumulate, data.size() - (data.state().batch - 1));
}

double backward(const Booster& booster, Boosted& boosted, const Batch& batch, int64_t parts,
                bool last) {
  auto& [net, opt, loss_fn, data, lr] = boosted;
  if (!last) {
    const auto local = booster.no_sync(net, opt);
    return backward(booster, boosted, batch, parts, true);
  }
  const Criterion share = share_of_step(booster, loss_fn, parts);
  Tensor loss;
  if (booster.plugin().layout().pipeline > 1) {
    const Batch* one = &batch;  // the loader's own iterator would run a batch ahead of a checkpoint
    loss = booster.execute_pipeline(one, net, share, opt);
  } else {
    loss = share(net(batch.image), batch.label);
    booster.backward(loss, opt);
  }
  return booster.loss_mean() == "rows" ? loss.item() / static_cast<double>(parts) : loss.item();
}

nlohmann::json own_settings(const Config& config) {
  nlohmann::json settings = nlohmann::json::object();
  const auto add = [&](const std::string& section, const nlohmann::json& values) {
    for (const auto& [name, value] : values.items())
      settings[section + "." + name] = written_out(value);
  };
  const nlohmann::json& all = config.to_json();
  for (const char* section : {"data", "train", "model"}) add(section, all.at(section));
  // If the model has its own image size, data.img_size has no effect.
  if (settings.contains("model.img_size")) settings["data.img_size"] = settings["model.img_size"];
  add("booster.plugin", all.at("booster").at("plugin"));
  return settings;
}

void check_steps_left(const Config& config, const DataLoader& data, int64_t step, int64_t total) {
  const auto epochs = config.get<int64_t>("train.epochs");
  const auto accumulate = config.get<int64_t>("train.accumulate");
  const int64_t steps_per_epoch = steps_of_epoch(data, accumulate);
  // A training at its last step has ended; train.max_steps may be what ended it.
  if (step <= total || total < epochs * steps_per_epoch) return;
  const LoaderState at = data.state();
  const bool at_end = at.batch == data.size();
  const int64_t done = static_cast<int64_t>(at.epoch) + at_end;
  check(done >= epochs,
        "train.epochs: with {} steps to an epoch now, {} epochs end at step {}, and the training "
        "that goes on, of which {} are over, is at step {} already; want train.epochs at least {}",
        steps_per_epoch, epochs, total, done, step, step / steps_per_epoch + 1);
}

}  // namespace example
