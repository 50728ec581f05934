// What a GPU of some compute capability multiplies fast.
#include "tools/doctor/gpu_capability.h"

#include "booster/config/registry.h"
#include "platform/error.h"

#include <doctest/doctest.h>

using namespace booster;
using namespace booster::numerics;
using doctest::Contains;

TEST_CASE("pitfall 1: a GPU without units for a dtype is told with both capabilities") {
  CHECK_FALSE(capability_warning("fp16", "Tesla V100", {7, 0}));
  CHECK(
      *capability_warning("fp16", "Tesla K40m", {3, 5}) ==
      "fp16 is only fast on NVIDIA GPUs with compute capability 7.0 or higher; the current GPU is "
      "Tesla K40m, with compute capability 3.5");
  CHECK(capability_warning("bf16", "Tesla T4", {7, 5}));
  CHECK_FALSE(capability_warning("bf16", "A100", {8, 0}));
  CHECK(capability_warning("fp8", "A100", {8, 0}));
  CHECK_FALSE(capability_warning("fp8", "L40", {8, 9}));
  CHECK_FALSE(capability_warning("fp8", "H200", {9, 0}));
  CHECK(capability_warning("mxfp8", "H200", {9, 0}));
  CHECK_THROWS_WITH_AS(needed_capability("fp7"), Contains("did you mean"), Error);
  CHECK(capability_summary({8, 0}) ==
        "compute capability 8.0; matrix units for fp16, bf16; none for fp8 (needs 8.9), mxfp8 "
        "(needs 10.0)");
}

TEST_CASE("each strategy's products run where they are fast, or the way out is told") {
  const auto on = [](const char* capability, const char* strategy) {
    for (const StrategyOnGpu& row : strategies_on(parse_capability(capability)))
      if (row.strategy == strategy) return row;
    FAIL("no row for " << strategy);
    return StrategyOnGpu();
  };
  CHECK(on("7.5", "fp16_apex").fast);
  CHECK(on("7.5", "bf16").instead == "fp16");
  CHECK(on("6.1", "fp16").instead == "fp32");
  CHECK(on("8.0", "fp8").instead == "bf16");
  CHECK(on("8.9", "fp8").fast);
  CHECK_FALSE(on("12.0", "fp32").fast);
  CHECK(on("12.0", "fp32").instead == "");
  for (const StrategyOnGpu& row : strategies_on({9, 0}))
    CHECK_MESSAGE(precision_registry().get(row.strategy), row.strategy);
  for (const char* wrong :
       {"", "7", "7.", ".5", "7.5.1", "-7.5", "7.-5", "x", "7,5", " 7.5", "0.5"})
    CHECK_THROWS_WITH_AS(parse_capability(wrong), Contains("want MAJOR.MINOR"), Error);
}
