// The cost of one call of a small op. The arithmetic of an 8 x 8 matrix is negligible, so this
// measures the overhead: checks, memory, and recording on the tape.
#include "benchmarks/report.h"
#include "benchmarks/timing.h"
#include "booster/booster.h"
#include "mixed_precision/ops/op_policies.h"

#include <fmt/format.h>

#include <optional>

using namespace booster;
using namespace booster::benchmarks;

namespace {

struct Settings {
  std::string op = "matmul";
  int64_t size = 8;
  std::string policy;
  bool no_tape = false;
};

// Returns torch's CPU autocast policy, or nothing.
std::optional<OpPolicy> policy_named(const std::string& name) {
  if (name.empty()) return std::nullopt;
  const std::vector<std::string> legal = {"bf16", "fp16"};
  check(name == "bf16" || name == "fp16", "--policy: no such policy; got {}{}", name,
        legal_names(name, legal));
  return torch_autocast_policy(DeviceType::cpu, name == "bf16" ? DType::bf16 : DType::f16);
}

constexpr int calls_per_step = 1000;

Result measure(const Benchmark& benchmark, const Settings& settings) {
  check(settings.op == "matmul" || settings.op == "relu", "--op: no such op; got {}{}", settings.op,
        legal_names(settings.op, {"matmul", "relu"}));
  check(settings.size >= 0, "--size: out of range; got {}, want at least 0", settings.size);
  const GradMode mode(!settings.no_tape);
  Tensor a = normal({settings.size, settings.size}), b = normal({settings.size, settings.size});
  a.requires_grad_();
  b.requires_grad_();
  const bool multiplies = settings.op == "matmul";
  const std::optional<OpPolicy> policy = policy_named(settings.policy);
  const PolicyScope scope(policy ? &*policy : nullptr);
  const auto body = [&] {
    for (int i = 0; i < calls_per_step; ++i) multiplies ? matmul(a, b) : relu(a);
  };
  body();
  auto seconds = timed_runs(benchmark.steps(), body);
  for (double& one : seconds) one /= calls_per_step;
  Result result = benchmark.result(
      fmt::format("{} {} x {} {} tape, a step is one call (mean of {})", settings.op, settings.size,
                  settings.size, settings.no_tape ? "without" : "with", calls_per_step),
      seconds);
  if (policy) result["policy"] = settings.policy;
  result["nanoseconds"] = 1e9 * result["seconds"].get<double>();
  return result;
}

}  // namespace

int main(int argc, char** argv) {
  Settings settings;
  Benchmark benchmark("op_overhead", "Nanoseconds of one small op.", 200);
  benchmark.option("--op", settings.op, "matmul or relu");
  benchmark.option("--size", settings.size, "rows and columns of its f32 arguments");
  benchmark.option("--policy", settings.policy, "bf16 or fp16: inside an autocast region");
  benchmark.flag("--no-tape", settings.no_tape, "do not record");
  return benchmark.run(argc, argv, [&] { return measure(benchmark, settings); });
}
