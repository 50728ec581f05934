#include "tools/plan/candidates.h"

#include "booster/config/registry.h"

#include <fmt/format.h>

#include <algorithm>

namespace booster::plan {

namespace {

constexpr int most_microbatches = 64, most_chunks = 4;

// Returns the same model for another batch size. The cost grows with the batch, except for the
// parameters' own cost and the number of kernels.
ModelCost with_rows(ModelCost model, int64_t rows) {
  const double factor = static_cast<double>(rows) / static_cast<double>(model.rows);
  for (PartCost* part : {&model.ends, &model.block}) {
    part->forward = grown(part->forward, factor);
    part->backward = grown(part->backward, factor);
    part->saved_bytes *= factor;
  }
  model.stream_bytes *= factor;
  model.workspace_bytes *= factor;
  model.rows = rows;
  return model;
}

// Stage 3 supports only models without pipeline stages, and stage 2 gains nothing if micro-batches
// accumulate gradients.
int most_zero(const Layout& layout) {
  if (layout.data * layout.sequence == 1) return 0;
  return layout.pipeline > 1 ? 1 : 3;
}

std::vector<Layout> meshes(int ranks) {
  std::vector<Layout> all;
  const auto divisors = [](int n) {
    std::vector<int> found;
    for (int i = 1; i <= n; ++i)
      if (n % i == 0) found.push_back(i);
    return found;
  };
  for (const int tensor : divisors(ranks))
    for (const int sequence : divisors(ranks / tensor))
      for (const int pipeline : divisors(ranks / tensor / sequence))
        all.push_back({.data = ranks / tensor / sequence / pipeline,
                       .tensor = tensor,
                       .pipeline = pipeline,
                       .sequence = sequence});
  return all;
}

// Leaves out gpipe: it takes as long as 1f1b and needs more memory.
std::vector<Spread> schedules(const Layout& layout, const ModelCost& model) {
  if (layout.pipeline == 1) return {{.layout = layout}};
  std::vector<Spread> all;
  for (int m = layout.pipeline; m <= std::max(layout.pipeline, most_microbatches); m *= 2) {
    if (model.rows % m != 0) continue;
    Spread spread = {.layout = layout, .microbatches = m};
    for (const auto style : {PipelineStyle::one_f_one_b, PipelineStyle::zero_bubble}) {
      spread.style = style;
      all.push_back(spread);
    }
    spread.style = PipelineStyle::interleaved;
    for (spread.chunks = 2; spread.chunks <= most_chunks; spread.chunks *= 2)
      if (model.blocks % (layout.pipeline * spread.chunks) == 0) all.push_back(spread);
  }
  return all;
}

// Returns the layout with each ZeRO stage.
std::vector<Layout> sharings(const Layout& layout) {
  std::vector<Layout> all;
  for (int zero = 0; zero <= most_zero(layout); ++zero) {
    all.push_back(layout);
    all.back().zero_stage = zero;
  }
  return all;
}

// Returns the plan, with recomputed blocks if it does not fit in memory otherwise.
Plan fitting_plan(const ModelCost& batch, const Cluster& cluster, Spread spread) {
  Plan plan = {spread, batch.rows, predict(batch, cluster, spread)};
  if (plan.fits(cluster.machine) || batch.blocks == 0) return plan;
  spread.recompute = true;
  return {spread, batch.rows, predict(batch, cluster, spread)};
}

bool has_option(const RegistryEntry<Plugin>& plugin, const std::string& name) {
  return std::ranges::any_of(plugin.options, [&](const auto& one) { return one.name == name; });
}

// Returns the options that a layout does not express.
nlohmann::json further_options(const Spread& spread) {
  nlohmann::json options = nlohmann::json::object();
  if (spread.recompute) options["recompute"] = true;
  if (spread.shards_on_a_node) options["sharding"] = "hybrid";
  if (spread.layout.pipeline == 1) return options;
  options["num_microbatches"] = spread.microbatches;
  options["pp_style"] = name_of(spread.style);
  if (spread.chunks > 1) options["num_model_chunks"] = spread.chunks;
  return options;
}

}  // namespace

bool Plan::fits(const Machine& machine) const {
  constexpr double gib = 1 << 30;
  return prediction.memory.peak() < machine.memory_gib * gib;
}

// Chooses the first suitable plugin: simpler plugins come first.
nlohmann::json Plan::plugin() const {
  const nlohmann::json more = further_options(spread);
  for (const auto& entry : plugin_registry().entries()) {
    auto options = entry.options_for ? entry.options_for(spread.layout) : std::nullopt;
    const bool knows = std::ranges::all_of(
        more.items(), [&](const auto& one) { return has_option(entry, one.key()); });
    if (!options || !knows) continue;
    nlohmann::json plugin = {{"name", entry.name}};
    plugin.update(*options);
    plugin.update(more);
    return plugin;
  }
  fail("plan: no plugin supports this layout; got {}", describe());
}

std::string Plan::describe() const {
  const Layout& layout = spread.layout;
  std::string text = fmt::format("data {}", layout.data);
  for (const auto& [name, size] : {std::pair{"pipeline", layout.pipeline},
                                   {"sequence", layout.sequence},
                                   {"tensor", layout.tensor}})
    if (size > 1) text += fmt::format(" x {} {}", name, size);
  if (layout.zero_stage > 0) text += fmt::format(", ZeRO {}", layout.zero_stage);
  if (spread.shards_on_a_node) text += " on each node";
  if (layout.pipeline > 1)
    text += fmt::format(", {} microbatches, {}", spread.microbatches, name_of(spread.style));
  if (spread.chunks > 1) text += fmt::format(" {}", spread.chunks);
  if (spread.recompute) text += ", recompute";
  return text;
}

Plan plan_for(const ModelCost& model, const Cluster& cluster, const Spread& spread, int64_t rows) {
  const ModelCost batch = with_rows(model, rows);
  const std::string obstacle = misfit(batch, cluster, spread);
  check(obstacle.empty(), "plan: the layout does not fit; got {}", obstacle);
  return {spread, rows, predict(batch, cluster, spread)};
}

std::vector<Plan> all_plans(const ModelCost& model, const Cluster& cluster, int64_t samples,
                            const Takes& takes) {
  std::vector<Plan> plans;
  for (const Layout& mesh : meshes(cluster.ranks())) {
    if (samples % mesh.data != 0) continue;
    const ModelCost batch = with_rows(model, samples / mesh.data);
    if (!misfit(batch, cluster, {.layout = mesh}).empty()) continue;
    for (const Layout& layout : sharings(mesh)) {
      if (!takes(layout)) continue;
      for (Spread spread : schedules(layout, batch)) {
        plans.push_back(fitting_plan(batch, cluster, spread));
        spread.shards_on_a_node = true;
        if (misfit(batch, cluster, spread).empty())
          plans.push_back(fitting_plan(batch, cluster, spread));
      }
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
