// An all-reduce between the ranks that it is started as:
//   booster run --nproc_per_node 2 build/benchmarks/all_reduce --mb 64
// BOOSTER_BACKEND chooses the backend. Seconds are those until the result is there on rank 0.
#include "benchmarks/report.h"
#include "benchmarks/timing.h"
#include "parallel/launch.h"

#include <fmt/format.h>

using namespace booster;
using namespace booster::benchmarks;

int main(int argc, char** argv) {
  int64_t mb = 64;
  Benchmark benchmark("all_reduce", "A sum over the ranks.", 20);
  benchmark.option("--mb", mb, "MiB of f32");
  return benchmark.run(argc, argv, [&] {
    const World world = launch_from_env();
    const Group group = world.group();
    const Tensor numbers = ones({mb << 18});
    timed_runs(3, [&] { group.all_reduce(numbers, CollectiveOp::mean); });
    const double core = core_seconds();
    const auto seconds =
        timed_runs(benchmark.steps(), [&] { group.all_reduce(numbers, CollectiveOp::mean); });
    Result result = benchmark.result(
        fmt::format("all-reduce of {} MiB, {} ranks, {}", mb, world.size, group.backend()),
        seconds);
    result["core_seconds"] = (core_seconds() - core) / benchmark.steps();  // of this rank
    result["gbytes_per_s"] =
        1e-9 * static_cast<double>(numbers.bytes()) / result["seconds"].get<double>();
    return result;
  });
}
