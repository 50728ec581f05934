// Training on a GPU agrees with training on the CPU, in every strategy.
#include "tests/draws.h"
#include "tests/on_gpu.h"
#include "tests/plugins/spread_runs.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>

#include <unistd.h>

using namespace booster;
using namespace booster::testing;

namespace {

Spread there() { return {.name = "GPU", .model = network, .device = gpu}; }

}  // namespace

TEST_CASE("GPU: every strategy trains by every optimizer as on the CPU" * on_gpu()) {
  unsigned cell = 0;
  for (const StrategyLevel& strategy : strategy_levels())
    for (const char* rule : {"sgd", "adamw", "lamb"}) {
      if (!is_drawn(cell++)) continue;
      CAPTURE(std::string(strategy.name));
      CAPTURE(std::string(rule));
      CHECK(train(strategy, there(), rule).difference == "");
    }
}

TEST_CASE("GPU: every strategy goes on from a checkpoint with the same bits" * on_gpu()) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("device_{}", getpid());
  unsigned cell = 0;
  for (const StrategyLevel& strategy : strategy_levels()) {
    if (!is_drawn(cell++)) continue;
    CAPTURE(std::string(strategy.name));
    CHECK(resume(strategy, there(), folder / strategy.name) == "");
  }
  std::filesystem::remove_all(folder);
}

TEST_CASE("GPU: a checkpoint of the CPU is gone on from there, and one from there on the CPU" *
          on_gpu()) {
  const auto folder = std::filesystem::temp_directory_path() / fmt::format("moved_{}", getpid());
  Spread spread = there();
  unsigned cell = 0;
  for (const StrategyLevel& strategy : strategy_levels()) {
    if (!is_drawn(cell++)) continue;
    CAPTURE(std::string(strategy.name));
    Spread other = spread;
    other.device = spread.device == gpu ? Device{} : gpu;
    CHECK(resume_elsewhere(strategy, spread, other, folder / strategy.name) == "");
    spread = other;  // the next strategy goes the other way
  }
  std::filesystem::remove_all(folder);
}

// Ranks with a GPU each, or sharing some; then tensors go through the host.
TEST_CASE("GPU: data parallel plugins train as one process on the CPU" * on_gpu()) {
  run_ranks_on_gpus("rank: torch_ddp", 2);
  run_ranks_on_gpus("rank: static ddp", 3);
  run_ranks_on_gpus("rank: bf16 ddp", 2);
  run_ranks_on_gpus("rank: zero 1", 3, 2);
  run_ranks_on_gpus("rank: late zero", 2);
  run_ranks_on_gpus("rank: recomputing fsdp", 3);
}
TEST_CASE("GPU: stages train as one process on the CPU" * on_gpu()) {
  run_ranks_on_gpus("rank: interleaved", 2);
  run_ranks_on_gpus("rank: zero bubble", 2);
  run_ranks_on_gpus("rank: interleaved", 2, 1);
  run_ranks_on_gpus("rank: tied stages", 3);
}
