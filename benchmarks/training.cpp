#include "benchmarks/training.h"

#include "benchmarks/timing.h"
#include "booster/profile/profiler.h"
#include "core/optim/algorithms/registry.h"
#include "core/tensor/memory/allocator.h"
#include "platform/warn.h"

#include <fmt/format.h>

#include <functional>
#include <map>

namespace booster::benchmarks {

namespace {

// Enough to reach a steady state: the first step allocates the gradients, the second the 16-bit
// copies that the optimizer rewrites.
constexpr int warm_up_steps = 2;

double bound_of(const std::vector<MatmulShape>& shapes) {
  return shapes.empty() ? 0 : measure_bound(shapes);
}

Optimizer optimizer_for(const TrainingWork& work) {
  const OptimizerChoice& choice = optimizer_choice(work.optimizer);
  OptimizerOptions options = choice.options;
  options["lr"] = work.lr;
  return make_optimizer(choice.rule, work.model.parameters(), options);
}

void print_profile(int steps, const std::function<void()>& step) {
  Profiler profiler;
  timed_runs(steps, step);
  profiler.stop();
  warn(fmt::format("{} steps\n{}", steps, profiler.table()));
}

}  // namespace

const OptimizerChoice& optimizer_choice(const std::string& name) {
  static const std::map<std::string, OptimizerChoice> choices = {
      {"sgd", {"SGD", "sgd", {{"weight_decay", 0.1}}, 12}},
      {"sgd_momentum",
       {"SGD with momentum", "sgd", {{"momentum", 0.9}, {"weight_decay", 0.1}}, 20}},
      {"adamw", {"AdamW", "adamw", {}, 28}}};
  std::vector<std::string> names;
  for (const auto& [key, choice] : choices) names.push_back(key);
  const auto found = choices.find(name);
  check(found != choices.end(), "--optimizer: no such optimizer; got {}{}", name,
        legal_names(name, names));
  return found->second;
}

Device chosen_device(const std::string& name) {
  check(name == "cpu" || name == "cuda", "--device: no such device; got {}, want cpu or cuda",
        name);
  return {name == "cuda" ? DeviceType::cuda : DeviceType::cpu};
}

DType product_dtype(const std::string& precision) {
  if (precision.starts_with("fp16")) return DType::f16;
  return precision == "bf16" || precision == "fp8" ? DType::bf16 : DType::f32;
}

Tensor class_labels(int64_t batch, int64_t classes) {
  std::vector<int64_t> labels(batch);
  for (int64_t i = 0; i < batch; ++i) labels[i] = i % classes;
  return from_vector(labels, {batch});
}

Result measure_training(const Benchmark& benchmark, const TrainingWork& work) {
  Booster booster({.mixed_precision = work.precision.c_str()});
  auto [net, optimizer] = booster.boost(work.model, optimizer_for(work));
  double loss_value = 0;
  const auto step = [&, &net = net, &optimizer = optimizer] {
    optimizer.zero_grad();
    const Tensor loss = work.criterion(net(work.input), work.target);
    booster.backward(loss, optimizer);
    optimizer.step();
    loss_value = loss.item();
  };
  timed_runs(warm_up_steps, step);
  const double bound_before = bound_of(work.shapes);
  reset_peak_bytes();
  const int64_t allocations_before = allocator_stats().system_allocations;
  const auto seconds = timed_runs(benchmark.steps(), step);
  const AllocatorStats memory = allocator_stats();

  if (work.profile) print_profile(benchmark.steps(), step);

  Result result = benchmark.result(work.text, seconds);
  if (work.gflop > 0) add_flops(result, work.gflop, std::max(bound_before, bound_of(work.shapes)));
  result["precision"] = work.precision;
  result["loss"] = loss_value;
  result["images_per_s"] =
      static_cast<double>(work.input.size(0)) / result["seconds"].get<double>();
  result["peak_bytes"] = memory.peak_bytes;
  result["system_allocations"] = memory.system_allocations - allocations_before;
  return result;
}

}  // namespace booster::benchmarks
