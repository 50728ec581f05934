#include "tests/plugins/spread_runs.h"

#include "kernels/device/memory.h"
#include "tests/draws.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>

namespace booster::testing {

namespace {

constexpr std::array<const char*, 3> rules = {"sgd", "adamw", "lamb"};
constexpr const char* on_gpus_variable = "SPREAD_ON_GPUS";
// How ranks are connected, unless only shared memory is used.
constexpr const char* over_variable = "SPREAD_OVER";
constexpr const char* width_variable = "SPREAD_WIDTH";

// On GPUs each rank uses the next GPU, modulo their number.
Spread spread_of(const SpreadMaker& make, const World& world) {
  Spread spread = make(world.group());
  if (is_on_gpus()) {
    spread.device = {DeviceType::cuda,
                     static_cast<int8_t>(world.rank % kernels::cuda_device_count())};
    spread.deeper *= 2;  // NCCL rounds 16-bit sums at every rank
  }
  return spread;
}

void check_rule(const StrategyLevel& strategy, const SpreadMaker& make, const char* rule) {
  const World world = launch_from_env();
  const Spread spread = spread_of(make, world);
  const std::string both = fmt::format("{} {} {}", spread.name, strategy.name, rule);
  INFO(both);
  const Distance far = train(strategy, spread, rule);
  CHECK(far.difference == "");
  const char* file = std::getenv("EQUIVALENCE");
  if (world.rank != 0 || !file) return;
  const char* over = std::getenv(over_variable);
  std::ofstream(file, std::ios::app)
      << fmt::format("| {}{} | {} | {} | {} | {:.1e} | {:.1e} |\n", over ? over : "",
                     (over ? ", " : "") + spread.name, world.size, strategy.name, rule, far.state,
                     far.told);
}

void check_resume(const StrategyLevel& strategy, const SpreadMaker& make) {
  const Spread spread = spread_of(make, launch_from_env());
  const std::string resumed = fmt::format("{} {}, resumed", spread.name, strategy.name);
  INFO(resumed);
  const std::string folder = test_folder() + "/" + spread.name + strategy.name;
  // NCCL's order of additions depends on a gradient's place among the others, and the first step of
  // a static graph sends them in another arrangement than later steps.
  const bool may_round = is_on_gpus() && spread.name == "ddp static";
  CHECK((may_round ? resume_elsewhere(strategy, spread, spread, folder)
                   : resume(strategy, spread, folder)) == "");
}

// Where this test case's row begins in the numbering of all cells: rows begin at different numbers,
// so that a share holds different columns of each.
unsigned first_cell() {
  const std::string row = doctest::getContextOptions()->currentTest->m_name;
  return static_cast<unsigned>(std::hash<std::string>()(row) + launch_from_env().size) % 1000;
}

// Trains the strategy of one width. Under mpirun ranks have no test folder.
void train_one(const SpreadMaker& spread) {
  const std::string name = std::getenv(width_variable);
  const auto strategy = std::ranges::find(strategy_levels(), name, &StrategyLevel::name);
  REQUIRE(strategy != strategy_levels().end());
  check_rule(*strategy, spread, "adamw");
  if (name == "bf16" && std::getenv("TEST_FOLDER")) check_resume(*strategy, spread);
}

// Runs the test case on four ranks over one kind of connection.
void run_ranks_over(const std::string& over, const std::string& test_case) {
  CAPTURE(over);
  if (over == "MPI") {
    CHECK(failures_over_mpi(test_case, 4) == "");
    return;
  }
  for (const Connection& connection : connections())
    if (connection.name == over)
      CHECK(failures(Ranks(test_case, 4, connection.environment).wait(400)) == "");
}

}  // namespace

bool is_on_gpus() { return std::getenv(on_gpus_variable) != nullptr; }

void train_all(const SpreadMaker& spread) {
  if (std::getenv(over_variable)) return train_one(spread);
  if (const char* turn = std::getenv(on_gpus_variable))
    return train_in_turn(spread, std::stoul(turn));
  unsigned cell = first_cell();
  check_rule(strategy_levels().front(), spread, rules[cell % rules.size()]);
  for (const StrategyLevel& strategy : strategy_levels()) {
    for (const char* rule : rules)
      if (is_drawn(cell++)) check_rule(strategy, spread, rule);
    if (is_drawn(cell++)) check_resume(strategy, spread);
  }
}

void train_in_turn(const SpreadMaker& spread, size_t turn) {
  if (std::getenv(over_variable)) return train_one(spread);
  const size_t every = is_on_gpus() ? 6 : 1;
  unsigned cell = first_cell();
  check_rule(strategy_levels().front(), spread, rules[turn % rules.size()]);
  for (const StrategyLevel& strategy : strategy_levels()) {
    if (++turn % every != 0) continue;
    if (is_drawn(cell++)) check_rule(strategy, spread, rules[turn / every % rules.size()]);
    if (is_drawn(cell++)) check_resume(strategy, spread);
  }
}

void run_ranks_on_gpus(const std::string& test_case, int size, int gpus) {
  static size_t turn = 0;
  const std::map<std::string, std::string> variables = {
      {on_gpus_variable, std::to_string(turn++)}, {"CUDA_ON_HOST_DEVICES", std::to_string(gpus)}};
  CHECK(failures(Ranks(test_case, size, variables).wait(400)) == "");
}

void run_ranks_over_each(const std::string& test_case) {
  constexpr std::array<const char*, 3> overs = {"gloo", "two machines", "MPI"},
                                       widths = {"fp32", "fp16", "bf16"};
  static unsigned turn = 0;
  const unsigned first = turn++;
  for (const unsigned draw : draws(overs.size() * widths.size())) {
    const char* over = overs[(first + draw) % overs.size()];
    ::setenv(over_variable, over, 1);
    ::setenv(width_variable, widths[(first / 3 + draw / 3) % widths.size()], 1);
    run_ranks_over(over, test_case);
  }
  ::unsetenv(over_variable);
}

}  // namespace booster::testing
