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
  for (const std::string section : {"data", "train"})
    for (const auto& [name, value] : config.to_json().at(section).items())
      settings[section + "." + name] = written_out(value);
  return settings;
}

}  // namespace example
