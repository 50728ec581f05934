// Ways to spread one training over the same ranks with the same samples in a step.
#pragma once

#include "booster/plan/prediction.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <string>
#include <vector>

namespace booster::plan {

struct Plan {
  Spread spread;
  int64_t rows = 0;  // the batch of each place on the data axis
  Prediction prediction;

  bool fits(const Machine& machine) const;
  // The section booster.plugin that trains so. Error if no plugin can.
  nlohmann::json plugin() const;
  // "data 4 x tensor 2, ZeRO 1"
  std::string describe() const;
};

// One of them. Error if the model cannot be spread so.
Plan plan_for(const ModelCost& model, const Cluster& cluster, const Spread& spread, int64_t rows);

// Whether a strategy trains in this layout.
using Takes = std::function<bool(const Layout&)>;

// Every mesh of data, pipeline, sequence and tensor axes, with each ZeRO stage and schedule that it
// takes, for `samples` in a step: those that fit in memory first, and the fastest of them first.
// What only costs time (blocks that run again in backward) is tried where memory wants it.
std::vector<Plan> all_plans(
    const ModelCost& model, const Cluster& cluster, int64_t samples,
    const Takes& takes = [](const Layout&) { return true; });

}  // namespace booster::plan
