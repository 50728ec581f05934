#include "booster/checkpoint/files/file.h"
#include "booster/cli/commands.h"
#include "booster/config/config.h"
#include "booster/config/json/json_document.h"
#include "booster/config/overrides.h"
#include "booster/config/registry.h"
#include "booster/pairing.h"
#include "booster/plan/candidates.h"
#include "booster/plan/probe.h"
#include "booster/profile/machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace booster::cli {

namespace {

using namespace booster::plan;
using Json = nlohmann::ordered_json;

constexpr double mib = 1 << 20;
constexpr int64_t most_counted_rows = 4;
constexpr size_t shown_plans = 8, longest_config = 1 << 20;

// data.batch_size and data.tokens, which belong to programs; else what the command line says.
TriedBatch batch_of(const PlanArguments& arguments) {
  TriedBatch batch = {.rows = arguments.batch_size, .tokens = arguments.tokens};
  JsonValue root = read_json(arguments.config);
  for (const std::string& set : arguments.sets) apply_override(root, set);
  const JsonValue* data = root.find("data");
  const auto given = [&](const char* name, int64_t& value) {
    const JsonValue* found = data ? data->find(name) : nullptr;
    if (value == 0 && found && found->scalar.is_number_integer())
      value = found->scalar.get<int64_t>();
  };
  given("batch_size", batch.rows);
  given("tokens", batch.tokens);
  if (batch.rows == 0) batch.rows = TriedBatch().rows;
  check(batch.rows > 0 && batch.rows <= 1'000'000, "--batch_size: got {}, want 1 to 1000000",
        batch.rows);
  return batch;
}

Cluster cluster_of(const PlanArguments& arguments) {
  check(arguments.nodes >= 1 && arguments.per_node >= 1,
        "plan: got {} nodes of {} ranks, want 1 or more", arguments.nodes, arguments.per_node);
  if (!arguments.gpu.empty())
    return gpu_cluster(arguments.gpu, arguments.nodes, arguments.per_node, arguments.network);
  Cluster cluster = this_machine(arguments.per_node);
  cluster.nodes = arguments.nodes;
  cluster.between = {arguments.network > 0 ? arguments.network : 1.1, 50e-6};  // 10 GbE
  return cluster;
}

// The config's own layout on these ranks; `single` counts as data parallel.
Spread spread_of(const Config& config, const Cluster& cluster) {
  const OptionValues options = config.options("booster.plugin");
  const auto& plugin = plugin_registry().find(options.get<std::string>("name"));
  Spread spread = {.layout = typical_layout(plugin, options)};
  Layout& layout = spread.layout;
  const int others = layout.tensor * layout.pipeline * layout.sequence;
  layout.data = std::max(1, cluster.ranks() / others);
  if (layout.pipeline == 1) return spread;
  const auto given = options.get<int64_t>("num_microbatches");
  spread.microbatches = given > 0 ? static_cast<int>(given) : layout.pipeline;
  spread.style = pipeline_style_named(options.get<std::string>("pp_style"));
  return spread;
}

void print_memory(const MemoryPlan& memory, const Machine& machine) {
  fmt::print("memory of a rank, MiB\n");
  for (const auto& [name, bytes] :
       {std::pair{"parameters", memory.parameters}, {"16-bit copies", memory.copies},
        {"gradients", memory.gradients}, {"masters", memory.masters},
        {"optimizer state", memory.optimizer}, {"activations", memory.activations},
        {"workspace", memory.workspace}})
    if (bytes > 0) fmt::print("  {:<16} {:>10.1f}\n", name, bytes / mib);
  fmt::print("  {:<16} {:>10.1f} of {:.0f}\n", "peak", memory.peak() / mib,
             machine.memory_gib * 1024);
}

void print_time(const Prediction& prediction) {
  fmt::print("time of a step, ms\n");
  const auto line = [](const std::string& name, double seconds, const std::string& more = "") {
    if (seconds > 0) fmt::print("  {:<16} {:>10.2f}{}\n", name, seconds * 1e3, more);
  };
  line("compute", prediction.compute);
  if (prediction.idle > 0)
    line("pipeline idle", prediction.idle,
         fmt::format("  bubble {:.1f} %", 100 * prediction.bubble()));
  for (const Traffic& one : prediction.traffic)
    line(one.axis + " axis", one.exposed,
         fmt::format("  not hidden; {:.1f} MB sent at {:g} GB/s", one.gbytes * 1e3,
                     one.wire.gbytes_per_s));
  line("update", prediction.update);
  line("all", prediction.seconds(),
       fmt::format("  {:.1f} samples per second", prediction.samples_per_second()));
}

void print_others(const std::vector<Plan>& plans, const Machine& machine) {
  fmt::print("{:<58} {:>11} {:>9} {:>11}\n", "layouts of as many samples, the fastest first",
             "memory MiB", "ms", "samples/s");
  for (size_t i = 0; i < std::min(plans.size(), shown_plans); ++i) {
    const Plan& one = plans[i];
    fmt::print("  {:<56} {:>11.0f} {:>9.1f} {:>11.1f}{}\n", one.describe(),
               one.prediction.memory.peak() / mib, one.prediction.seconds() * 1e3,
               one.prediction.samples_per_second(),
               one.fits(machine) ? "" : "  does not fit in memory");
  }
}

// Young, 1974: the time between checkpoints that loses least, sqrt(2 C M). One GPU fails in 50,700
// hours (Llama 3: 419 interruptions of 16,384 in 54 days).
void print_failures(const Cluster& cluster) {
  constexpr double hours_of_one = 50'700, seconds_of_save = 30;
  const double hours = hours_of_one / cluster.ranks();
  const double between = std::sqrt(2 * seconds_of_save * hours * 3600);
  fmt::print("failures         one in {:.0f} hours; a checkpoint of {:g} s every {:.0f} minutes "
             "loses least\n",
             hours, seconds_of_save, between / 60);
}

Json as_json(const Plan& one, const Machine& machine) {
  const MemoryPlan& memory = one.prediction.memory;
  Json traffic = Json::array();
  for (const Traffic& each : one.prediction.traffic)
    traffic.push_back({{"axis", each.axis}, {"gbytes", each.gbytes}, {"seconds", each.exposed}});
  return {{"plugin", one.plugin()},
          {"layout", one.describe()},
          {"batch_size", one.rows},
          {"fits", one.fits(machine)},
          {"memory",
           {{"parameters", memory.parameters},
            {"copies", memory.copies},
            {"gradients", memory.gradients},
            {"masters", memory.masters},
            {"optimizer", memory.optimizer},
            {"activations", memory.activations},
            {"workspace", memory.workspace},
            {"peak", memory.peak()}}},
          {"traffic", traffic},
          {"seconds",
           {{"compute", one.prediction.compute},
            {"idle", one.prediction.idle},
            {"update", one.prediction.update},
            {"all", one.prediction.seconds()}}},
          {"bubble", one.prediction.bubble()},
          {"samples_per_second", one.prediction.samples_per_second()}};
}

// The file's config with that plugin, and the batch that keeps the samples of a step.
void write_config(const PlanArguments& arguments, const Plan& best) {
  Json config = Json::parse(read_file(arguments.config, longest_config));
  if (!config.contains("booster")) config["booster"] = Json::object();
  config["booster"]["plugin"] = best.plugin();
  config["data"]["batch_size"] = best.rows;
  AtomicFile file(arguments.write);
  file.writer().write(config.dump(2) + "\n");
  file.commit();
  fmt::print("{}: {}\n", arguments.write, best.describe());
}

}  // namespace

int plan(const PlanArguments& arguments) {
  const Config config = Config::from_file(arguments.config, arguments.sets, {.open = true});
  const TriedBatch batch = batch_of(arguments);
  const Cluster cluster = cluster_of(arguments);
  const int sharers = arguments.gpu.empty() ? arguments.per_node : 1;
  const int threads = std::max(1, usable_cores() / sharers);
  // Of a GPU's plan no time is measured here, and what is counted grows with the batch.
  const int64_t most = arguments.gpu.empty() ? batch.rows : most_counted_rows;
  const TriedBatch tried = {.rows = std::min(batch.rows, most), .tokens = batch.tokens};
  const ModelCost cost = probe(config, tried, threads);
  const Plan own = plan_for(cost, cluster, spread_of(config, cluster), batch.rows);
  const auto plans = all_plans(cost, cluster, own.rows * own.spread.layout.data);
  if (arguments.json) {
    Json all = Json::array();
    for (const Plan& each : plans) all.push_back(as_json(each, cluster.machine));
    fmt::print("{}\n", Json{{"own", as_json(own, cluster.machine)}, {"all", all}}.dump());
  } else {
    fmt::print("model            {}: {:.2f} M parameters; {} samples in the batch of a rank\n",
               config.get<std::string>("model.name"), cost.parameters() * 1e-6, batch.rows);
    fmt::print("machine          {} x {} x {}\n", cluster.nodes, cluster.per_node,
               cluster.machine.name);
    fmt::print("layout           {}\n", own.describe());
    print_memory(own.prediction.memory, cluster.machine);
    print_time(own.prediction);
    if (!arguments.gpu.empty()) print_failures(cluster);
    if (cluster.ranks() > 1) print_others(plans, cluster.machine);
  }
  if (!arguments.write.empty()) write_config(arguments, plans.empty() ? own : plans.front());
  return 0;
}

}  // namespace booster::cli
