// Seconds of an optimizer's step, or of clipping, on the parameters of a ViT. All parameters are
// read and written once per step, so memory is the bound; bytes counted per parameter: SGD 12,
// with momentum 20, AdamW 28 (value, gradient and state, read and written), norm 4.
#include "benchmarks/timing.h"
#include "booster/machine.h"
#include "core/nn/models/vit.h"
#include "core/optim/clip.h"
#include "core/optim/registry.h"
#include "kernels/catalogue.h"
#include "kernels/error.h"
#include "kernels/memory.h"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace booster;
using namespace booster::benchmarks;
using nlohmann::ordered_json;

namespace {

struct Arguments {
  std::string optimizer = "sgd";
  std::string parameters = "vit_base";
  int threads = kernels::thread_count();
  int steps = 20;
  bool json = false;
};

struct Work {
  std::string text;
  std::string optimizer;
  Options options;
  double bytes;  // per parameter
};

Work work_of(const std::string& name) {
  const std::map<std::string, Work> works = {
      {"sgd", {"SGD step", "sgd", {{"weight_decay", 0.1}}, 12}},
      {"sgd_momentum",
       {"SGD step with momentum", "sgd", {{"momentum", 0.9}, {"weight_decay", 0.1}}, 20}},
      {"adamw", {"AdamW step", "adamw", {}, 28}},
      {"clip", {"clip_grad_by_norm, whose factor the next step applies", "sgd", {}, 4}}};
  std::vector<std::string> names;
  for (const auto& [key, work] : works) names.push_back(key);
  const auto found = works.find(name);
  check(found != works.end(), "--optimizer: no such work; got {}{}", name,
        legal_names(name, names));
  return found->second;
}

Parameters parameters_of(const std::string& name) {
  Parameters parameters = models::vit(name + "_patch16_224", {.num_classes = 1000}).parameters();
  for (auto& [label, tensor] : parameters) tensor.set_grad(full(tensor.shape(), 1e-3));
  return parameters;
}

std::vector<Tensor> gradients_of(const Parameters& parameters) {
  std::vector<Tensor> gradients;
  for (const auto& [name, tensor] : parameters) gradients.push_back(tensor.grad());
  return gradients;
}

// What clip_grad_by_norm does between two steps: the factor stays where the step reads it.
void clip(const std::vector<Tensor>& gradients) {
  const Tensor norm = gradient_norm(gradients);
  clip_factor(norm, 1).item();
}

ordered_json report(const Arguments& arguments) {
  const Work work = work_of(arguments.optimizer);
  const Parameters parameters = parameters_of(arguments.parameters);
  const auto gradients = gradients_of(parameters);
  Optimizer optimizer = make_optimizer(work.optimizer, parameters, work.options);
  const bool clips = arguments.optimizer == "clip";
  const auto body = [&] { clips ? clip(gradients) : optimizer.step(); };
  int64_t count = 0;
  for (const Tensor& gradient : gradients) count += gradient.numel();

  body();
  const double copy_before = copy_gbytes_per_s();
  const auto seconds = timed_runs(arguments.steps, body);
  const double gbytes = 1e-9 * work.bytes * static_cast<double>(count);
  ordered_json result = {
      {"benchmark", "optimizer_step"},
      {"work", fmt::format("{}, {}, {} parameters f32", work.text, arguments.parameters, count)},
      {"seconds", seconds[seconds.size() / 2]},
      {"seconds_min", seconds.front()},
      {"steps", arguments.steps},
      {"threads", arguments.threads},
      {"variant", kernels::cpu_variant()},
      {"machine", processor_name()},
      {"versions", library_versions()},
      {"gbytes", gbytes},
      {"gbytes_per_s", gbytes / seconds.front()},
      {"copy_gbytes_per_s", std::max(copy_before, copy_gbytes_per_s())}};
  if (clips)  // the gradients in memory changed too, as PyTorch does it
    result["in_memory_seconds_min"] =
        timed_runs(arguments.steps, [&] { clip_grad_norm_(parameters, 1e-3); }).front();
  return result;
}

void print_table(const ordered_json& result) {
  for (const auto& [name, value] : result.items())
    fmt::print("{:<22} {}\n", name, value.is_string() ? value.get<std::string>() : value.dump());
}

void run(const Arguments& arguments) {
  kernels::set_thread_count(arguments.threads);
  check(arguments.steps >= 1, "--steps: out of range; got {}, want at least 1", arguments.steps);
  const ordered_json result = report(arguments);
  if (arguments.json)
    fmt::print("{}\n", result.dump());
  else
    print_table(result);
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  CLI::App app("Seconds of an optimizer's step on the parameters of a ViT.", "optimizer_step");
  app.add_option("--optimizer", arguments.optimizer, "sgd, sgd_momentum, adamw or clip");
  app.add_option("--parameters", arguments.parameters,
                 "vit_tiny, vit_small, vit_base or vit_large");
  app.add_option("--threads", arguments.threads, "threads of the kernels");
  app.add_option("--steps", arguments.steps, "timed steps");
  app.add_flag("--json", arguments.json, "one JSON object instead of a table");
  CLI11_PARSE(app, argc, argv);
  try {
    run(arguments);
  } catch (const Error& error) {
    fmt::print(stderr, "optimizer_step: {}\n", error.what());
    return error.exit_code();
  }
}
