// Trains a config's model on synthetic images, on all ranks of this process's run. Tests compare
// plans with it.
#pragma once

#include "booster/booster.h"
#include "core/nn/functional.h"
#include "core/tensor/memory/allocator.h"
#include "core/tensor/random/random.h"

#include <chrono>
#include <vector>

namespace booster::plan {

class TrainedConfig {
 public:
  // `rows` images are the batch of each data-parallel position.
  TrainedConfig(const Config& config, int64_t rows)
      : before_(allocator_stats().live_bytes),
        booster_(Booster::from_config(config)),
        model_(make_model(config)),
        boosted_(booster_.boost(model_, make_optimizer(config, model_), CrossEntropyLoss())) {
    const int64_t side = config.get<int64_t>("model.img_size");
    batch_ = {uniform({rows, 3, side, side}, -1, 1), zeros({rows}, {.dtype = DType::i64})};
    stages_ = booster_.plugin().layout().pipeline;
  }

  void step() {
    auto& [net, opt, loss] = boosted_;
    opt.zero_grad();
    if (stages_ > 1) {
      const Batch* at = &batch_;
      booster_.execute_pipeline(at, net, loss, opt);
    } else {
      booster_.backward(loss(net(batch_.input), batch_.target), opt);
    }
    opt.step();
  }

  // Returns the bytes of everything this rank holds at the peak of a step.
  double peak() {
    for (int i = 0; i < 3; ++i) step();
    reset_peak_bytes();
    for (int i = 0; i < 2; ++i) step();
    return static_cast<double>(allocator_stats().peak_bytes - before_);
  }

  double seconds_of_step() {
    const auto start = std::chrono::steady_clock::now();
    step();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }

 private:
  struct Batch {
    Tensor input, target;
  };
  int64_t before_;
  Booster booster_;
  Model model_;
  BoostedTriple boosted_;
  Batch batch_;
  int stages_ = 1;
};

}  // namespace booster::plan
