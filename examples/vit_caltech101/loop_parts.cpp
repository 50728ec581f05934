#include "examples/vit_caltech101/loop_parts.h"

#include "examples/vit_caltech101/report/metrics.h"

#include <string>

namespace example {

using namespace booster;

double backward(const Booster& booster, Boosted& boosted, const Batch& batch, bool last) {
  auto& [net, opt, loss_fn, data, lr] = boosted;
  if (!last) {
    const auto local = booster.no_sync(net, opt);
    return backward(booster, boosted, batch, true);
  }
  if (booster.plugin().layout().pipeline > 1) {
    const Batch* one = &batch;  // the loader's own iterator would be a batch ahead of a checkpoint
    return booster.execute_pipeline(one, net, loss_fn, opt).item();
  }
  const Tensor loss = loss_fn(net(batch.image), batch.label);
  booster.backward(loss, opt);
  return loss.item();
}

nlohmann::json own_settings(const Config& config) {
  nlohmann::json settings = nlohmann::json::object();
  const auto add = [&](const std::string& section, const nlohmann::json& values) {
    for (const auto& [name, value] : values.items())
      settings[section + "." + name] = written_out(value);
  };
  const nlohmann::json& all = config.to_json();
  for (const char* section : {"data", "train", "model"}) add(section, all.at(section));
  // Where the model has a size of its own, data.img_size says nothing.
  if (settings.contains("model.img_size")) settings["data.img_size"] = settings["model.img_size"];
  add("booster.plugin", all.at("booster").at("plugin"));
  return settings;
}

void check_steps_left(const Config& config, const DataLoader& data, int64_t step, int64_t total) {
  const auto epochs = config.get<int64_t>("train.epochs");
  const auto accumulate = config.get<int64_t>("train.accumulate");
  const int64_t steps_per_epoch = data.size() / accumulate;
  // One that stands at its last step has ended; train.max_steps may be what ends it.
  if (step <= total || total < epochs * steps_per_epoch) return;
  const LoaderState at = data.state();
  const bool at_end = data.size() - at.batch < accumulate;  // no whole step is left of the epoch
  const int64_t done = static_cast<int64_t>(at.epoch) + at_end;
  check(done >= epochs,
        "train.epochs: with {} steps to an epoch now, {} epochs end at step {}, and the training "
        "that goes on, of which {} are over, is at step {} already; want train.epochs at least {}",
        steps_per_epoch, epochs, total, done, step, step / steps_per_epoch + 1);
}

}  // namespace example
