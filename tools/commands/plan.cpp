#include "booster/config/config.h"
#include "booster/config/overrides.h"
#include "booster/config/pairing.h"
#include "booster/config/registry.h"
#include "booster/profile/machine.h"
#include "platform/environment.h"
#include "platform/files/atomic_file.h"
#include "platform/files/file.h"
#include "platform/json/json_document.h"
#include "platform/threads.h"
#include "tools/commands/commands.h"
#include "tools/plan/candidates.h"
#include "tools/plan/companions.h"
#include "tools/plan/probe.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

namespace booster::cli {

namespace {

struct PlanArguments {
  std::string config;
  std::vector<std::string> sets;  // key.path=value
  std::string gpu;                // a name of gpu_cluster(); empty: this machine
  int nodes = 1, per_node = 1;
  double network = 0;                  // 10^9 bytes per second between nodes; 0: as usual
  int64_t batch_size = 0, tokens = 0;  // per rank; 0: from the config's section data
  double loader_ms = 0;                // processor time to load one sample
  std::string write;                   // output file for the config with the best layout
  bool json = false;
};

using namespace booster::plan;
using Json = nlohmann::ordered_json;

constexpr double mib = 1 << 20;
constexpr int64_t most_counted_rows = 4;
constexpr size_t shown_plans = 8;

Config config_of(const PlanArguments& arguments) {
  return Config::from_file(arguments.config, arguments.sets, {.open = true});
}

// Reads the options that belong to programs, under the names that the examples use. For the batch,
// the command line takes precedence.
TriedStep step_of(const PlanArguments& arguments) {
  TriedStep step = {.rows = arguments.batch_size, .tokens = arguments.tokens};
  JsonValue root = read_json(arguments.config);
  for (const std::string& set : arguments.sets) apply_override(root, set);
  const auto given = [&](const char* section, const char* name, auto& value) {
    using Value = std::remove_reference_t<decltype(value)>;
    const JsonValue* options = root.find(section);
    const JsonValue* found = options ? options->find(name) : nullptr;
    const bool fits = found && (std::is_integral_v<Value> ? found->scalar.is_number_integer()
                                                          : found->scalar.is_number());
    if (value == 0 && fits) value = found->scalar.get<Value>();
  };
  given("data", "batch_size", step.rows);
  given("data", "tokens", step.tokens);
  given("train", "clip_grad_norm", step.clip_grad_norm);
  given("train", "label_smoothing", step.label_smoothing);
  if (step.rows == 0) step.rows = TriedStep().rows;
  check(step.tokens >= 0, "--tokens: out of range; got {}, want 0 or more", step.tokens);
  check(step.rows > 0 && step.rows <= 1'000'000, "--batch_size: got {}, want 1 to 1000000",
        step.rows);
  return step;
}

// Measures the cost of a rank's training with a rank's share of this machine. Meanwhile one
// companion process for each other rank does the same work. For a plan on GPUs it measures no time;
// the counted work scales with the batch.
ModelCost cost_of(const PlanArguments& arguments, TriedStep step) {
  const bool here = arguments.gpu.empty();
  const int ranks = here ? arguments.per_node : 1;
  const int threads = environment::is_set("OMP_NUM_THREADS") ? kernels::thread_count()
                                                             : std::max(1, usable_cores() / ranks);
  step.timed = here;
  if (!here) step.rows = std::min(step.rows, most_counted_rows);
  const auto trial = [&] { return probe(config_of(arguments), step, threads); };
  Companions others(std::min(ranks, usable_cores()) - 1, trial);
  others.begin();
  ModelCost cost = trial();
  if (here) cost.loading = arguments.loader_ms * 1e-3 / threads;
  return cost;
}

Cluster cluster_of(const PlanArguments& arguments) {
  if (!arguments.gpu.empty())
    return gpu_cluster(arguments.gpu, arguments.nodes, arguments.per_node, arguments.network);
  return this_machine(arguments.per_node, arguments.nodes, arguments.network);
}

// Returns the config's own layout on these ranks; `single` counts as data parallel.
Spread spread_of(const Config& config, const Cluster& cluster) {
  const OptionValues options = config.options("booster.plugin");
  const auto& plugin = plugin_registry().find(options.get<std::string>("name"));
  Spread spread = {.layout = typical_layout(plugin, options)};
  Layout& layout = spread.layout;
  const int others = layout.tensor * layout.pipeline * layout.sequence;
  layout.data = std::max(1, cluster.ranks() / others);
  spread.recompute = options.has("recompute") && options.get<bool>("recompute");
  spread.overlaps =
      !options.has("overlap_communication") || options.get<bool>("overlap_communication");
  spread.shards_on_a_node = cluster.nodes > 1 && options.has("sharding") &&
                            options.get<std::string>("sharding") == "hybrid";
  if (layout.pipeline == 1) return spread;
  spread.chunks = options.get<int>("num_model_chunks");
  const auto given = options.get<int64_t>("num_microbatches");
  spread.microbatches = given > 0 ? static_cast<int>(given) : layout.pipeline;
  spread.style = pipeline_style_named(options.get<std::string>("pp_style"));
  return spread;
}

void print_memory(const MemoryPlan& memory, const Machine& machine) {
  fmt::print("memory of a rank, MiB\n");
  for (const auto& [name, bytes] : {std::pair{"parameters", memory.parameters},
                                    {"16-bit copies", memory.copies},
                                    {"gradients", memory.gradients},
                                    {"in messages", memory.leaving},
                                    {"masters", memory.masters},
                                    {"optimizer state", memory.optimizer},
                                    {"activations", memory.activations},
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
         fmt::format("  not hidden; {:.1f} MB sent, {:.1f} between nodes", one.gbytes * 1e3,
                     one.gbytes_between * 1e3));
  line("update", prediction.update);
  line("loading", prediction.loading);
  line("all", prediction.seconds(),
       fmt::format("  {:.1f} samples per second", prediction.samples_per_second()));
}

void print_others(const std::vector<Plan>& plans, const Machine& machine) {
  fmt::print("{:<58} {:>11} {:>9} {:>11}\n",
             "layouts with the same number of samples, fastest first", "memory MiB", "ms",
             "samples/s");
  for (size_t i = 0; i < std::min(plans.size(), shown_plans); ++i) {
    const Plan& one = plans[i];
    fmt::print("  {:<56} {:>11.0f} {:>9.1f} {:>11.1f}{}\n", one.describe(),
               one.prediction.memory.peak() / mib, one.prediction.seconds() * 1e3,
               one.prediction.samples_per_second(),
               one.fits(machine) ? "" : "  does not fit in memory");
  }
}

// Young (1974): the least work is lost with sqrt(2 C M) between checkpoints. One GPU fails once in
// 50,700 hours (Llama 3: 419 interruptions of 16,384 GPUs in 54 days).
void print_failures(const Cluster& cluster) {
  constexpr double hours_of_one = 50'700, seconds_of_save = 30;
  const double hours = hours_of_one / cluster.ranks();
  const double between = std::sqrt(2 * seconds_of_save * hours * 3600);
  fmt::print(
      "failures         one in {:.0f} hours; a checkpoint of {:g} s every {:.0f} minutes "
      "loses least\n",
      hours, seconds_of_save, between / 60);
}

Json as_json(const Plan& one, const Machine& machine) {
  const MemoryPlan& memory = one.prediction.memory;
  Json traffic = Json::array();
  for (const Traffic& each : one.prediction.traffic)
    traffic.push_back({{"axis", each.axis},
                       {"gbytes", each.gbytes},
                       {"gbytes_between", each.gbytes_between},
                       {"seconds", each.exposed}});
  return {{"plugin", one.plugin()},
          {"layout", one.describe()},
          {"batch_size", one.rows},
          {"fits", one.fits(machine)},
          {"memory",
           {{"parameters", memory.parameters},
            {"copies", memory.copies},
            {"gradients", memory.gradients},
            {"leaving", memory.leaving},
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
            {"loading", one.prediction.loading},
            {"all", one.prediction.seconds()}}},
          {"bubble", one.prediction.bubble()},
          {"samples_per_second", one.prediction.samples_per_second()}};
}

// Writes the planned config with the new plugin, and with the batch size that keeps the samples per
// step.
void write_config(const PlanArguments& arguments, const Plan& best) {
  JsonValue root = read_json(arguments.config);
  for (const std::string& set : arguments.sets) apply_override(root, set);
  Json config = root.to_ordered_json();
  if (!config.contains("booster")) config["booster"] = Json::object();
  config["booster"]["plugin"] = best.plugin();
  config["data"]["batch_size"] = best.rows;
  AtomicFile file(arguments.write);
  file.writer().write(config.dump(2) + "\n");
  file.commit();
  fmt::print("{}: {}\n", arguments.write, best.describe());
  // Keeps the given device: this machine may have no GPU, and the config must be valid here too.
  if (!arguments.gpu.empty() && !config.value("device", "auto").starts_with("cuda"))
    fmt::print(
        "device: the config trains on the CPU; got {}, want --set device=cuda on the machine with "
        "GPUs\n",
        config.value("device", "auto"));
}

int plan(const PlanArguments& arguments) {
  check(arguments.nodes >= 1 && arguments.per_node >= 1,
        "plan: too few ranks; got {} nodes of {} ranks, want 1 or more of each", arguments.nodes,
        arguments.per_node);
  constexpr int64_t most_ranks = 1'000'000;
  check(int64_t{arguments.nodes} * arguments.per_node <= most_ranks,
        "plan: too many ranks; got {} nodes of {} ranks, want at most {} ranks", arguments.nodes,
        arguments.per_node, most_ranks);
  check(arguments.network >= 0 && std::isfinite(arguments.network),
        "--network: out of range; got {}, want 0 (the usual value) or more", arguments.network);
  check(arguments.loader_ms >= 0, "--loader-ms: out of range; got {}, want 0 or more",
        arguments.loader_ms);
  if (!arguments.gpu.empty()) cluster_of(arguments);  // throws for an unknown name
  const TriedStep step = step_of(arguments);
  const ModelCost cost = cost_of(arguments, step);  // must be first: it forks this process
  const Config config = config_of(arguments);
  const Cluster cluster = cluster_of(arguments);
  const auto precision = precision_registry().make(config.options("booster.mixed_precision"));
  const auto takes = [&](const Layout& layout) { return precision->interaction(layout).supported; };
  const Plan own = plan_for(cost, cluster, spread_of(config, cluster), step.rows);
  const auto plans = all_plans(cost, cluster, own.rows * own.spread.layout.data, takes);
  if (arguments.json) {
    Json all = Json::array();
    for (const Plan& each : plans) all.push_back(as_json(each, cluster.machine));
    fmt::print("{}\n", Json{{"own", as_json(own, cluster.machine)}, {"all", all}}.dump());
  } else {
    fmt::print("model            {}: {:.2f} M parameters; {} samples in the batch of a rank\n",
               config.get<std::string>("model.name"), cost.parameters() * 1e-6, step.rows);
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

}  // namespace

Action plan_command(CLI::App& line) {
  const auto planned = std::make_shared<PlanArguments>();
  line.add_option("--config", planned->config, "JSON config")->required();
  line.add_option("--set", planned->sets, "key.path=value: overrides one value")
      ->allow_extra_args(false);
  line.add_option("--nodes", planned->nodes, "machines (1)");
  line.add_option("--gpus-per-node,--ranks-per-node", planned->per_node, "ranks on each (1)");
  line.add_option("--gpu", planned->gpu, "h200, a100, ... (default: this machine)");
  line.add_option("--network", planned->network, "GB/s between machines for each rank");
  line.add_option("--batch_size", planned->batch_size,
                  "samples in a rank's batch (default: the config's data.batch_size)");
  line.add_option("--tokens", planned->tokens,
                  "tokens of each text (default: the config's data.tokens)");
  line.add_option("--loader-ms", planned->loader_ms,
                  "milliseconds to load a sample, if the same processors train");
  line.add_option("--write", planned->write, "write the config with the best layout to this file");
  add_json(line, planned->json);
  return [planned](const Words&) { return plan(*planned); };
}

}  // namespace booster::cli
