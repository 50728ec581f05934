// Seconds of an optimizer step, or of clipping, on the parameters of a ViT. A step reads and writes
// every parameter once, so memory is the bound. Bytes counted per parameter (value, gradient and
// state):
//   SGD 12, SGD with momentum 20, AdamW 28, norm 4, adamw_fp16 30 (as if in two passes)
// adamw_fp16 is everything between backward and the next forward of an f16 model with f32 masters:
// check, norm, clip, unscale, AdamW and the new f16 weights. core_round_trip_ns, before and after
// the steps, shows whether the cores shared a path to memory.
#include "benchmarks/core_distance.h"
#include "benchmarks/timing.h"
#include "benchmarks/training.h"
#include "core/optim/algorithms/registry.h"
#include "core/optim/clip.h"

#include <fmt/format.h>

#include <cmath>

using namespace booster;
using namespace booster::benchmarks;

namespace {

struct Settings {
  std::string optimizer = "sgd", parameters = "vit_base";
};

constexpr double norm_bytes = 4;

Parameters parameters_of(const std::string& name) {
  Parameters parameters = models::vit(name + "_patch16_224", {.num_classes = 1000}).parameters();
  for (auto& [label, tensor] : parameters) tensor.set_grad(full(tensor.shape(), 1e-3));
  return parameters;
}

int64_t count_of(const Parameters& parameters) {
  int64_t count = 0;
  for (const auto& [name, tensor] : parameters) count += tensor.numel();
  return count;
}

// Returns the common fields and the traffic, for a body that moves `bytes` per parameter.
Result measure_traffic(const Benchmark& benchmark, const std::string& text,
                       const Parameters& parameters, double bytes,
                       const std::function<void()>& body) {
  body();
  const double copy_before = copy_gbytes_per_s();
  const double trip_before = core_round_trip_ns();
  const auto seconds = timed_runs(benchmark.steps(), body);
  const double trip_after = core_round_trip_ns();
  const auto count = static_cast<double>(count_of(parameters));
  Result result =
      benchmark.result(fmt::format("{}, {} parameters f32", text, count_of(parameters)), seconds);
  add_bytes(result, 1e-9 * bytes * count, std::max(copy_before, copy_gbytes_per_s()));
  result["core_round_trip_ns"] = {std::round(trip_before), std::round(trip_after)};
  return result;
}

// Measures clip_grad_by_norm between two steps; the next step applies its factor.
Result measure_clip(const Benchmark& benchmark, const Settings& settings) {
  const Parameters parameters = parameters_of(settings.parameters);
  std::vector<Tensor> gradients;
  for (const auto& [name, tensor] : parameters) gradients.push_back(tensor.grad());
  Result result = measure_traffic(
      benchmark, "clip_grad_by_norm, whose factor the next step applies, " + settings.parameters,
      parameters, norm_bytes, [&] { clip_factor(gradient_norm(gradients), 1).item(); });
  // This one also scales the gradients in memory, as PyTorch does.
  result["in_memory_seconds_min"] =
      timed_runs(benchmark.steps(), [&] { clip_grad_norm_(parameters, 1e-3); }).front();
  return result;
}

Result measure_masters(const Benchmark& benchmark, const Settings& settings) {
  constexpr double bytes = 30;
  const Model model = models::vit(settings.parameters + "_patch16_224", {.num_classes = 1000});
  Booster booster({.mixed_precision = "fp16_naive"});
  auto [net, optimizer] = booster.boost(model, AdamW(model.parameters(), {}));
  const Parameters parameters = model.parameters();
  const Tensor loss = scalar(0).requires_grad_();
  booster.backward(loss, optimizer);
  for (const auto& [name, tensor] : parameters)
    tensor.set_grad(full(tensor.shape(), 1e-3, {.dtype = tensor.dtype()}));
  return measure_traffic(
      benchmark, "check, norm, clip, unscale, AdamW on masters, f16 copy, " + settings.parameters,
      parameters, bytes, [&, &optimizer = optimizer] {
        booster.backward(loss, optimizer);
        optimizer.clip_grad_by_norm(1);
        optimizer.step();
      });
}

Result measure(const Benchmark& benchmark, const Settings& settings) {
  if (settings.optimizer == "adamw_fp16") return measure_masters(benchmark, settings);
  if (settings.optimizer == "clip") return measure_clip(benchmark, settings);
  const OptimizerChoice& choice = optimizer_choice(settings.optimizer);
  const Parameters parameters = parameters_of(settings.parameters);
  Optimizer optimizer = make_optimizer(choice.rule, parameters, choice.options);
  return measure_traffic(benchmark, fmt::format("{} step, {}", choice.text, settings.parameters),
                         parameters, choice.bytes, [&] { optimizer.step(); });
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  Benchmark benchmark("optimizer_step", "An optimizer's step on the parameters of a ViT.", 20);
  benchmark.option("--optimizer", settings.optimizer,
                   "sgd, sgd_momentum, adamw, adamw_fp16 or clip");
  benchmark.option("--parameters", settings.parameters,
                   "vit_tiny, vit_small, vit_base or vit_large");
  return benchmark.run(argc, argv, [&] { return measure(benchmark, settings); });
}
