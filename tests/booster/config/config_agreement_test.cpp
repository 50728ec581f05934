// Ranks whose configs differ.
#include "booster/booster.h"
#include "tests/error_of.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

using namespace booster;

namespace {

const Section own = {.name = "own",
                     .description = "a program's",
                     .options = {path_option("folder", "a", "where"),
                                 integer_option("number", 3, at_least(0), "how many")}};

// Returns the error of Booster::from_config on this rank when rank `odd` has another value.
std::string said(int odd, const std::string& override) {
  const World world = launch_from_env();
  std::vector<std::string> overrides = {"booster.plugin=torch_ddp"};
  if (world.rank == odd) overrides.push_back(override);
  const Config config = Config::from_text("{}", "config", overrides, {.sections = {own}});
  return error_of([&] { Booster::from_config(config); });
}

}  // namespace

TEST_CASE("rank: configs" * doctest::skip()) {
  CHECK(said(1, "own.number=3") == "");
  CHECK(said(1, "own.folder=elsewhere") == "");
  CHECK(said(2, "own.number=4") ==
        "config: own.number differs between ranks; rank 2 has 4, rank 0 has 3");
  CHECK(said(0, "optimizer.lr=0.5") ==
        "config: optimizer.lr differs between ranks; rank 1 has 0.001, rank 0 has 0.5");
  CHECK(said(1, "booster.plugin.bucket_cap_mb=7").find("booster.plugin.bucket_cap_mb") == 8);
  CHECK(said(1, "booster.plugin=low_level_zero").find("config: booster.plugin.") == 0);
  CHECK(said(1, "optimizer.name=adamw").find("config: optimizer.") == 0);
}

TEST_CASE("ranks whose configs differ say in what") {
  CHECK(failures(Ranks("rank: configs", 3).wait()) == "");
}
