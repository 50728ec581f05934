// A small training to save and resume, with the settings that a user may change in between.
#pragma once

#include "booster/booster.h"
#include "core/nn/criterion.h"
#include "tests/booster/checkpoint/newest.h"

#include <string>

namespace booster::test {

struct SmallSettings {
  std::string plugin = "single", strategy = "fp32", optimizer = "adamw";
  double lr = 0.01, weight_decay = 0.1, momentum = 0;
  int64_t batch_size = 8, samples = 32, total_steps = 20;
  uint64_t seed = 42;
  bool shuffle = true;
  int64_t first_label = 0;  // other labels: other data
  double init_scale = 65536;
  int first_group = 2;   // parameters in the first group of two
  bool is_late = false;  // the second group joins later, by add_group()
};

struct SmallTraining {
  Booster booster;
  Boosted boosted;

  explicit SmallTraining(const SmallSettings& settings = {});
  // Uses a given Booster, for example one of some ranks only.
  SmallTraining(Booster booster, const SmallSettings& settings);
  // Adds the second group, with this learning rate.
  void add_group(double lr = 0.02);
  // Runs one step on this batch.
  void step(const Batch& batch);
  // Runs steps, epoch after epoch; leaves the loop over the loader after the last.
  void steps(int64_t count);
  // Returns all values of the model, one after the other.
  std::vector<float> weights() const;
};

inline constexpr int64_t small_features = 16, small_classes = 16;  // for fp8

inline TensorDataset small_data(const SmallSettings& settings) {
  Generator generator(5);
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < settings.samples; ++i)
    labels.push_back((settings.first_label + i * 7) % small_classes);
  return {uniform({settings.samples, small_features}, -1, 1, {}, generator),
          from_vector(labels, {settings.samples})};
}

inline Choice<Precision> small_precision(const SmallSettings& settings) {
  if (settings.strategy == "fp16")
    return FP16TorchMixedPrecision({.init_scale = settings.init_scale});
  if (settings.strategy == "fp16_apex") return FP16ApexMixedPrecision({.verbosity = 0});
  if (settings.strategy == "bf16 cast") return BF16MixedPrecision({.style = "cast"});
  return settings.strategy;
}

inline Booster small_booster(const SmallSettings& settings) {
  manual_seed(11);
  return Booster({.plugin = settings.plugin, .mixed_precision = small_precision(settings)});
}

inline Boosted small_boosted(Booster& booster, const SmallSettings& settings) {
  Model model = Sequential{Linear(small_features, 16), GELU(), Dropout(0.2),
                           Linear(16, small_classes)};
  const Parameters all = model.parameters();
  const auto middle = all.begin() + settings.first_group;
  std::vector<ParameterGroup> groups = {{Parameters(all.begin(), middle)}};
  if (!settings.is_late) groups.push_back({Parameters(middle, all.end()), {{"lr", 0.02}}});
  Optimizer optimizer =
      settings.optimizer == "adamw"
          ? Optimizer(AdamW(groups, {.lr = settings.lr, .weight_decay = settings.weight_decay}))
          : Optimizer(SGD(groups, {.lr = settings.lr,
                                   .momentum = settings.momentum,
                                   .weight_decay = settings.weight_decay}));
  LRScheduler scheduler = CosineAnnealingWarmupLR(
      optimizer, {.warmup_steps = 3, .total_steps = settings.total_steps});
  auto loader = booster.prepare_dataloader(small_data(settings),
                                           {.batch_size = settings.batch_size,
                                            .shuffle = settings.shuffle,
                                            .drop_last = true,
                                            .workers = 1,
                                            .seed = settings.seed});
  return booster.boost(model, optimizer, CrossEntropyLoss(), loader, scheduler);
}

inline SmallTraining::SmallTraining(const SmallSettings& settings)
    : booster(small_booster(settings)), boosted(small_boosted(booster, settings)) {}

inline SmallTraining::SmallTraining(Booster given, const SmallSettings& settings)
    : booster((manual_seed(11), std::move(given))), boosted(small_boosted(booster, settings)) {}

inline void SmallTraining::add_group(double lr) {
  Parameters all = boosted.model.unwrap().parameters();
  all.erase(all.begin(), all.begin() + 2);
  boosted.optimizer.unwrap().add_group({all, {{"lr", lr}}});
}

inline void SmallTraining::step(const Batch& batch) {
  auto& [net, opt, loss_fn, data, lr] = boosted;
  opt.zero_grad();
  booster.backward(loss_fn(net(batch.image), batch.label), opt);
  lr.step(opt.step());
}

inline void SmallTraining::steps(int64_t count) {
  while (true)
    for (auto& batch : boosted.dataloader) {
      step(batch);
      if (--count == 0) return;
    }
}

inline std::vector<float> SmallTraining::weights() const {
  std::vector<float> all;
  for (const auto& [name, tensor] : boosted.model.unwrap().state_dict()) {
    const auto values = tensor.to_vector<float>();
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

}  // namespace booster::test
