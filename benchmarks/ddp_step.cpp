// The cost of distributing a model. Compares a training step of a Vision Transformer on all ranks,
// on one rank with the same batch, and on ranks that do not communicate:
//   booster run --nproc_per_node 2 build/benchmarks/ddp_step --precision bf16
// With --plugin tensor the ranks split the layers of one model and share the batch. With --plugin
// pipeline each rank has some of the layers. The three cases take turns, since the speed of a
// shared machine drifts; ratios are medians over turns.
#include "benchmarks/report.h"
#include "benchmarks/timing.h"
#include "benchmarks/training.h"
#include "booster/profile/profiler.h"
#include "parallel/mesh.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

using namespace booster;
using namespace booster::benchmarks;

namespace {

constexpr int64_t classes = 1000;
constexpr int steps_of_turn = 2, profiled_steps = 5;

struct Settings {
  std::string plugin = "torch_ddp", model = "vit_tiny_patch16_224", precision = "fp32", comm_dtype,
              pp_style = "1f1b";
  int64_t batch = 8, bucket_cap_mb = 25, heads = 0, microbatches = 4;
  bool static_graph = false;
};

// A separate model with its optimizer.
class Training {
 public:
  Training(const Settings& settings, Choice<Plugin> plugin)
      : booster_({.plugin = std::move(plugin), .mixed_precision = settings.precision.c_str()}),
        model_(models::vit(settings.model, options_of(settings))),
        boosted_(booster_.boost(model_, SGD(model_.parameters(), {.lr = 1e-2}))),
        input_(normal({settings.batch, 3, 224, 224})),
        target_(class_labels(settings.batch, classes)) {}

  void step() {
    struct Batch {
      Tensor input, target;
    } batch = {input_, target_};
    Batch* at = &batch;
    boosted_.optimizer.zero_grad();
    booster_.execute_pipeline(at, boosted_.model, loss_, boosted_.optimizer);
    boosted_.optimizer.step();
  }

 private:
  static models::VitOptions options_of(const Settings& settings) {
    models::VitOptions options = {.num_classes = classes};
    if (settings.heads > 0) options.num_heads = settings.heads;
    return options;
  }

  Booster booster_;
  Model model_;
  BoostedPair boosted_;
  Criterion loss_ = CrossEntropyLoss();
  Tensor input_, target_;
};

double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Times per step.
struct Turn {
  double seconds = 0, core = 0;
};

Turn turn(const Group& world, Training* training) {
  world.barrier();
  const double start = seconds_now(), core = core_seconds();
  for (int i = 0; training && i < steps_of_turn; ++i) training->step();
  return {(seconds_now() - start) / steps_of_turn, (core_seconds() - core) / steps_of_turn};
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

Choice<Plugin> plugin_of(const Settings& settings) {
  if (settings.plugin == "tensor")
    return HybridParallelPlugin({.tp_size = launch_from_env().size});
  if (settings.plugin == "pipeline")
    return HybridParallelPlugin({.pp_size = launch_from_env().size,
                                 .pp_style = settings.pp_style,
                                 .num_microbatches = settings.microbatches});
  if (settings.plugin != "torch_ddp") return settings.plugin.c_str();
  return TorchDDPPlugin({.bucket_cap_mb = static_cast<double>(settings.bucket_cap_mb),
                         .static_graph = settings.static_graph,
                         .comm_dtype = settings.comm_dtype});
}

std::string name_of(const Settings& settings) {
  return settings.plugin == "pipeline" ? settings.pp_style : settings.plugin;
}

// Returns how many seconds the main thread waited for messages.
double waited(const Profiler& profiler) {
  double seconds = 0;
  for (const ProfileRow& row : profiler.rows())
    if (row.on_main_thread && row.name == "wait for ranks") seconds += row.seconds;
  return seconds;
}

Result measure(const Benchmark& benchmark, const Settings& settings) {
  const World world = launch_from_env();
  const Group group = world.group();
  check(world.size > 1, "ddp_step: too few ranks; got 1, want booster run --nproc_per_node 2");
  Training together(settings, plugin_of(settings)),
      apart(settings, SinglePlugin({.on_every_rank = true}));
  for (int i = 0; i < 3; ++i) together.step(), apart.step();

  std::vector<double> seconds, alone, beside, cost, exchange, load, core, more_core;
  for (int i = 0; i < benchmark.steps(); ++i) {
    const Turn a = turn(group, &together), b = turn(group, &apart),
               c = turn(group, world.rank == 0 ? &apart : nullptr);
    seconds.push_back(a.seconds);
    beside.push_back(b.seconds);
    alone.push_back(c.seconds);
    cost.push_back(a.seconds / c.seconds);
    exchange.push_back(a.seconds / b.seconds);
    load.push_back(b.seconds / c.seconds);
    core.push_back(a.core);
    more_core.push_back(a.core / b.core);
  }
  Profiler profiler;
  for (int i = 0; i < profiled_steps; ++i) together.step();
  profiler.stop();
  const auto [communication, hidden] = profiler.communication();

  std::sort(seconds.begin(), seconds.end());
  Result result = benchmark.result(
      fmt::format("{}, batch {}, {} ranks, {}, {}", settings.model, settings.batch, world.size,
                  settings.precision, name_of(settings)),
      seconds);
  result["seconds_alone"] = median(alone);
  result["seconds_beside"] = median(beside);
  result["to_alone"] = median(cost);  // both factors: other rank's load, messages
  result["beside_to_alone"] = median(load);
  result["to_beside"] = median(exchange);
  result["core_seconds"] = median(core);
  result["core_to_beside"] = median(more_core);
  result["communication_ms"] = 1e3 * communication / profiled_steps;
  result["behind_backward"] = hidden / communication;
  result["behind_work"] = 1 - waited(profiler) / communication;  // including forward and steps
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  Benchmark benchmark("ddp_step", "A training step of several ranks.", 10);
  benchmark.option("--plugin", settings.plugin,
                   "torch_ddp, low_level_zero, fsdp, tensor or pipeline");
  benchmark.option("--model", settings.model, "vit_tiny_patch16_224, vit_base_patch16_224, ...");
  benchmark.option("--batch", settings.batch, "images per rank and step");
  benchmark.option("--heads", settings.heads, "heads of each block; 0: the model's own number");
  benchmark.option("--pp_style", settings.pp_style,
                   "schedule of a pipeline: gpipe, 1f1b or zero_bubble");
  benchmark.option("--microbatches", settings.microbatches, "of a pipeline's batch");
  benchmark.option("--precision", settings.precision, "fp32, fp16, bf16 or fp8");
  benchmark.option("--bucket_cap_mb", settings.bucket_cap_mb, "of torch_ddp");
  benchmark.option("--comm_dtype", settings.comm_dtype, "of torch_ddp: fp16 or bf16");
  benchmark.flag("--static_graph", settings.static_graph, "of torch_ddp");
  return benchmark.run(argc, argv, [&] { return measure(benchmark, settings); });
}
