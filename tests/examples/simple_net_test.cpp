// The example with the networks of Paddle's guides, at a small size.
#include "tests/booster/command.h"

#include <fmt/format.h>

#include <cmath>
#include <sstream>
#include <vector>

using namespace booster;

namespace {

CommandResult simple_net(const std::string& arguments) {
  return run_command(fmt::format("OMP_NUM_THREADS=1 '{}' {}",
                                 (build_folder() / "examples/simple_net").string(), arguments));
}

// Returns by what share a row's loss exceeds fp32's: the last column, in percent.
std::vector<double> over_fp32(const std::string& output, const std::string& row) {
  std::vector<double> shares;
  std::istringstream lines(output);
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with(row)) shares.push_back(std::stod(line.substr(line.rfind(' '))) / 100);
  return shares;
}

}  // namespace

TEST_CASE("simple_net: with masters O2 follows fp32, without them updates are lost") {
  const CommandResult result =
      simple_net("--network linear --width 128 --batch 64 --batches 5 --epochs 8 --accumulate 4");
  REQUIRE_MESSAGE(result.code == 0, result.output);
  for (const char* row : {"fp32", "O1", "O2, f32 masters"}) {
    const auto shares = over_fp32(result.output, row);
    REQUIRE_MESSAGE(shares.size() == 2, result.output);
    for (const double share : shares) CHECK_MESSAGE(std::fabs(share) < 1e-3, result.output);
  }
  const auto pure = over_fp32(result.output, "O2, pure");
  REQUIRE(pure.size() == 2);
  CHECK_MESSAGE(pure[0] > 5e-3, result.output);
}

TEST_CASE("simple_net takes any strategy, and refuses what it does not know") {
  const CommandResult bf16 = simple_net(
      "--width 64 --batch 16 --batches 2 --epochs 1 --accumulate 1 --strategy '\"bf16\"'");
  REQUIRE_MESSAGE(bf16.code == 0, bf16.output);
  CHECK(over_fp32(bf16.output, "\"bf16\"").size() == 1);
  CHECK(simple_net("--batch 16 --width 64 --batches 2 --strategy '\"bf17\"'").code == 2);
  CHECK(simple_net("--network round").code == 2);
  CHECK(simple_net("--width -1").code == 2);
}
