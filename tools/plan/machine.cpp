#include "tools/plan/machine.h"

#include "booster/profile/machine.h"
#include "booster/profile/machine_speed.h"
#include "platform/error.h"

namespace booster::plan {

namespace {

// Dense peaks in TFLOP/s, 10^9 bytes per second, GiB; the wires in 10^9 bytes per second and
// direction. Products of f32 run in f32, not in TF32.
struct Gpu {
  const char* name;
  double f32, bf16, fp8, memory, gib, inside, between;
};
constexpr Gpu gpus[] = {
    // NVIDIA's data sheets. For V100 and RTX 3090 the bf16 column holds their fp16 rate.
    {"v100", 15.7, 125, 125, 900, 32, 130, 12},
    {"a100", 19.5, 312, 312, 2039, 80, 230, 23},
    {"h100", 67, 989, 1979, 3350, 80, 370, 45},
    {"h200", 67, 989, 1979, 4800, 141, 370, 45},
    {"b200", 80, 2250, 4500, 8000, 180, 700, 45},
    {"rtx3090", 35.6, 71, 71, 936, 24, 12, 3},
    {"rtx4090", 82.6, 165, 330, 1008, 24, 12, 3},
};

constexpr double product_share = 2.0 / 3, memory_share = 0.85;
constexpr double launch = 4e-6, message = 10e-6, network_message = 20e-6;  // seconds
// 10 Gbit/s between nodes whose CPUs compute, in 10^9 bytes per second without headers.
constexpr double ethernet = 1.1, ethernet_message = 50e-6;

}  // namespace

std::vector<std::string> gpu_names() {
  std::vector<std::string> names;
  for (const Gpu& gpu : gpus) names.emplace_back(gpu.name);
  return names;
}

Cluster gpu_cluster(const std::string& name, int nodes, int per_node, double network) {
  for (const Gpu& gpu : gpus) {
    if (name != gpu.name) continue;
    const double tera = 1e3 * product_share;
    return {.machine = {.name = name,
                        .memory_gib = gpu.gib,
                        .gbytes_per_s = gpu.memory * memory_share,
                        .seconds_per_call = launch,
                        .gflops_per_s = {{"f32", gpu.f32 * tera},
                                         {"f16", gpu.bf16 * tera},
                                         {"bf16", gpu.bf16 * tera},
                                         {"fp8", gpu.fp8 * tera}}},
            .nodes = nodes,
            .per_node = per_node,
            .inside = {gpu.inside, message},
            .between = {network > 0 ? network : gpu.between, network_message}};
  }
  fail("--gpu: unknown name; got {}{}", name, legal_names(name, gpu_names()));
}

Cluster this_machine(int ranks, int nodes, double network) {
  constexpr double seconds = 0.2;
  const double copy = measure_copy_gbytes_per_s(seconds);
  return {.machine = {.name = processor_name(),
                      .memory_gib = machine_info().at("memory_gib").get<double>() / ranks,
                      .gbytes_per_s = copy,
                      .is_this_one = true},
          .nodes = nodes,
          .per_node = ranks,
          // A message through shared memory is written, read, and accumulated on arrival.
          .inside = {copy / (4.0 * ranks), 20e-6},
          .between = {network > 0 ? network : ethernet / ranks, ethernet_message}};
}

}  // namespace booster::plan
