// The contents of state.json: everything of a training that is not a tensor. Values; read and
// written as a whole, so that only a valid state ever touches a training.
#pragma once

#include "booster/checkpoint/training/data_position.h"
#include "core/data/loader.h"
#include "core/optim/optimizer.h"
#include "core/optim/schedules/lr_scheduler.h"
#include "core/tensor/random/random.h"
#include "mixed_precision/interface/precision.h"

#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace booster {

struct TrainingState {
  int64_t step = 0;
  nlohmann::json extra = nlohmann::json::object(), settings = nlohmann::json::object();
  std::string plugin;

  std::string precision;
  PrecisionNumbers precision_state, first_precision_state;  // now, and when it was boosted
  bool precision_by_rank = false;                           // each rank has its own tensors

  OptimizerState optimizer;  // without its tensors
  LRSchedulerState schedule;

  DataPosition position;
  uint64_t seed = 0;
  bool shuffle = false, drop_last = false;
  uint64_t order = 0;  // a fingerprint of all ranks' samples in this epoch
  DatasetIdentity data;

  std::vector<RandomState> random;  // by rank
};

nlohmann::json to_json(const TrainingState& state);
// Throws an Error of kind data, beginning with `file`.
TrainingState training_state_from(const nlohmann::json& json, const std::string& file);

}  // namespace booster
