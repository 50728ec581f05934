#include "booster/plan/candidates.h"

#include "booster/config/registry.h"

#include <fmt/format.h>

#include <algorithm>

namespace booster::plan {

namespace {

constexpr int most_microbatches = 64;

// The same model on a batch of another size: all but the parameters' own grows with it.
ModelCost with_rows(ModelCost model, int64_t rows) {
  const double factor = static_cast<double>(rows) / static_cast<double>(model.rows);
  for (PartCost* part : {&model.ends, &model.block}) {
    part->forward = part->forward * factor;
    part->backward = part->backward * factor;
    part->saved_bytes *= factor;
  }
  model.stream_bytes *= factor;
  model.workspace_bytes *= factor;
  model.rows = rows;
  return model;
}

// Stage 3 is for whole models here, and stage 2 gains nothing where microbatches add up.
int most_zero(const Layout& layout) {
  if (layout.data == 1) return 0;
  return layout.pipeline > 1 ? 1 : 3;
}

std::vector<int> microbatches_of(const Layout& layout, int64_t rows) {
  if (layout.pipeline == 1) return {1};
  std::vector<int> counts;
  for (int m = layout.pipeline; m <= most_microbatches; m *= 2)
    if (rows % m == 0) counts.push_back(m);
  return counts;
}

std::vector<Layout> meshes(int ranks) {
  std::vector<Layout> all;
  for (int tensor = 1; tensor <= ranks; ++tensor)
    for (int pipeline = 1; tensor * pipeline <= ranks; ++pipeline)
      if (ranks % (tensor * pipeline) == 0)
        all.push_back({.data = ranks / (tensor * pipeline), .tensor = tensor,
                       .pipeline = pipeline});
  return all;
}

}  // namespace

bool Plan::fits(const Machine& machine) const {
  constexpr double gib = 1 << 30;
  return prediction.memory.peak() < machine.memory_gib * gib;
}

// The first plugin that can: those that do less come first.
nlohmann::json Plan::plugin() const {
  for (const auto& entry : plugin_registry().entries()) {
    auto options = entry.options_for ? entry.options_for(spread.layout) : std::nullopt;
    if (!options) continue;
    nlohmann::json plugin = {{"name", entry.name}};
    plugin.update(*options);
    if (spread.layout.pipeline > 1)
      plugin.update(
          {{"num_microbatches", spread.microbatches}, {"pp_style", name_of(spread.style)}});
    return plugin;
  }
  fail("plan: no plugin spreads a model as {}", describe());
}

std::string Plan::describe() const {
  const Layout& layout = spread.layout;
  std::string text = fmt::format("data {}", layout.data);
  for (const auto& [name, size] : {std::pair{"pipeline", layout.pipeline},
                                   {"sequence", layout.sequence}, {"tensor", layout.tensor}})
    if (size > 1) text += fmt::format(" x {} {}", name, size);
  if (layout.zero_stage > 0) text += fmt::format(", ZeRO {}", layout.zero_stage);
  if (layout.pipeline > 1)
    text += fmt::format(", {} microbatches, {}", spread.microbatches, name_of(spread.style));
  return text;
}

Plan plan_for(const ModelCost& model, const Cluster& cluster, const Spread& spread, int64_t rows) {
  const ModelCost batch = with_rows(model, rows);
  const std::string obstacle = misfit(batch, cluster, spread);
  check(obstacle.empty(), "plan: the layout does not fit; got {}", obstacle);
  return {spread, rows, predict(batch, cluster, spread)};
}

std::vector<Plan> all_plans(const ModelCost& model, const Cluster& cluster, int64_t samples) {
  std::vector<Plan> plans;
  for (Layout layout : meshes(cluster.ranks())) {
    if (samples % layout.data != 0) continue;
    const int64_t rows = samples / layout.data;
    const ModelCost batch = with_rows(model, rows);
    for (int zero = 0; zero <= most_zero(layout); ++zero)
      for (const int microbatches : microbatches_of(layout, rows)) {
        layout.zero_stage = zero;
        const Spread spread = {.layout = layout, .microbatches = microbatches};
        if (misfit(batch, cluster, spread).empty())
          plans.push_back({spread, rows, predict(batch, cluster, spread)});
      }
  }
  const auto before = [&](const Plan& a, const Plan& b) {
    const bool fits = a.fits(cluster.machine);
    if (fits != b.fits(cluster.machine)) return fits;
    return a.prediction.seconds() < b.prediction.seconds();
  };
  std::stable_sort(plans.begin(), plans.end(), before);
  return plans;
}

}  // namespace booster::plan
