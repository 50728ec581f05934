// Times a collective over the ranks that the run tool starts:
//   booster run --nproc_per_node 2 build/benchmarks/all_reduce --kb 65536
// BOOSTER_BACKEND selects the backend. Times end when the result has arrived on rank 0.
#include "benchmarks/report.h"
#include "benchmarks/timing.h"
#include "parallel/mesh.h"
#include "platform/error.h"

#include <fmt/format.h>

#include <functional>
#include <map>

using namespace booster;
using namespace booster::benchmarks;

namespace {

using Collective = std::function<void(const Group&, const Tensor& numbers, const Tensor& part)>;

// `part` holds one rank's share of the elements.
const std::map<std::string, Collective> collectives = {
    {"all_reduce",
     [](const Group& group, const Tensor& numbers, const Tensor&) {
       group.all_reduce(numbers, CollectiveOp::mean);
     }},
    {"all_gather",
     [](const Group& group, const Tensor& numbers, const Tensor& part) {
       group.all_gather(numbers, part);
     }},
    {"reduce_scatter",
     [](const Group& group, const Tensor& numbers, const Tensor& part) {
       group.reduce_scatter(part, numbers, CollectiveOp::mean);
     }},
    {"broadcast", [](const Group& group, const Tensor& numbers,
                     const Tensor&) { group.broadcast(numbers); }},
};

}  // namespace

int main(int argc, char** argv) {
  int64_t kb = 65536;
  std::string name = "all_reduce", dtype = "f32";
  Benchmark benchmark("all_reduce", "A sum over the ranks, or another collective.", 20);
  benchmark.option("--kb", kb, "KiB of numbers, per rank or of all ranks together");
  benchmark.option("--collective", name, "all_reduce, all_gather, reduce_scatter or broadcast");
  benchmark.option("--dtype", dtype, "f32 or bf16");
  return benchmark.run(argc, argv, [&] {
    const auto collective = collectives.find(name);
    check(collective != collectives.end(), "--collective: unknown name; got '{}'", name);
    const DType type = dtype == "bf16" ? DType::bf16 : DType::f32;
    const World world = launch_from_env();
    const Group group = world.group();
    const int64_t count = kb * 1024 / size_of(type) / world.size;
    const Tensor numbers = ones({count * world.size}, {.dtype = type});
    const Tensor part = ones({count}, {.dtype = type});
    const auto once = [&] { collective->second(group, numbers, part); };
    timed_runs(3, once);
    const double core = core_seconds();
    const auto seconds = timed_runs(benchmark.steps(), once);
    group.barrier();  // no rank leaves while another still sends
    Result result = benchmark.result(
        fmt::format("{} of {} KiB {}, {} ranks, {}", name, kb, dtype, world.size, group.backend()),
        seconds);
    result["core_seconds"] = (core_seconds() - core) / benchmark.steps();  // of this rank
    result["gbytes_per_s"] =
        1e-9 * static_cast<double>(numbers.bytes()) / result["seconds"].get<double>();
    return result;
  });
}
