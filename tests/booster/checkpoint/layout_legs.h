// A small training under any plugin: the building blocks of a chain of program runs that move from
// layout to layout by checkpoints.
#pragma once

#include "booster/booster.h"

#include <random>
#include <string>
#include <vector>

namespace booster::layouts {

constexpr int64_t samples = 72, features = 5;  // 5: not divisible by any number of ranks
constexpr uint64_t order_seed = 42;            // for the order of samples

struct Dice {
  std::mt19937 engine;
  int below(size_t n) {
    return std::uniform_int_distribution<int>(0, static_cast<int>(n) - 1)(engine);
  }
  template <class T>
  T of(const std::vector<T>& all) {
    return all[static_cast<size_t>(below(all.size()))];
  }
};

// What stays constant in a chain.
struct Kind {
  const char *strategy, *optimizer;
  bool is_gpt2 = false;  // else some linear layers with odd sizes
};
Kind drawn_kind(Dice& dice);

// One program run of a chain.
struct Leg {
  std::string plugin;      // "single", "torch_ddp", "zero 1", "zero 2", "fsdp" or "hybrid"
  std::vector<int> ranks;  // world ranks that take part
  int64_t batch_size = 0;
  int steps = 0;
  bool async = false, shards = false;
  bool late = false;                   // overlap_allgather of low_level_zero
  HybridParallelOptions options = {};  // of "hybrid"

  // Returns the number of ranks that see different data.
  int64_t shares() const {
    return static_cast<int64_t>(ranks.size()) /
           (options.tp_size * options.pp_size * options.sp_size);
  }
  int64_t samples_per_step() const { return batch_size * shares(); }
  std::string name() const;
};
Leg drawn_leg(Dice& dice, const Kind& kind);

Tensor data_input();
Tensor data_target();

struct Training {
  Booster booster;
  Boosted boosted;
  bool is_gpt2 = false, by_pipeline = false;
  ParameterAverage average{boosted.optimizer.unwrap(), {.decay = 0.7}};

  Tensor outputs_of_all();
  Tensor outputs_with_averages();
  // Trains on rows of data_input() and data_target().
  void step(const Tensor& input, const Tensor& target);
  void steps(int count);
};
// Returns the shape of outputs_of_all()'s result.
Shape output_shape(const Kind& kind);

Training alone(const Kind& kind, int64_t batch_size);
Training spread(const Kind& kind, const Leg& leg, const Group& group);

}  // namespace booster::layouts
