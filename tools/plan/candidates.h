// Ways to distribute one training over the same ranks with the same number of samples per step.
#pragma once

#include "tools/plan/prediction.h"

#include <nlohmann/json.hpp>

#include <functional>
#include <string>
#include <vector>

namespace booster::plan {

struct Plan {
  Spread spread;
  int64_t rows = 0;  // batch size of each data-parallel position
  Prediction prediction;

  bool fits(const Machine& machine) const;
  // Returns the section booster.plugin for this plan. Throws if no plugin supports it.
  nlohmann::json plugin() const;
  // Returns "data 4 x tensor 2, ZeRO 1"
  std::string describe() const;
};

// Returns one plan. Throws if the model cannot be spread like this.
Plan plan_for(const ModelCost& model, const Cluster& cluster, const Spread& spread, int64_t rows);

// Returns whether a strategy trains in this layout.
using Takes = std::function<bool(const Layout&)>;

// Returns plans for `samples` per step: one for each mesh of data, pipeline, sequence and tensor
// axes, each ZeRO stage that `takes` accepts and each schedule. Plans that fit in memory come
// first, fastest first. An option that saves memory but costs time (recomputation of blocks) is
// tried only if memory requires it.
std::vector<Plan> all_plans(
    const ModelCost& model, const Cluster& cluster, int64_t samples,
    const Takes& takes = [](const Layout&) { return true; });

}  // namespace booster::plan
