// The examples of models of several tensors learn, in every precision and on every layout.
#include "tests/booster/command.h"
#include "tests/draws.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

using namespace booster;

namespace {

// Returns the last number after "loss " that the program prints.
double last_loss(const std::string& program, const std::string& precision,
                 const std::string& layout) {
  const std::string build = build_folder().string();
  const std::string ranks =
      layout == "single" ? "" : fmt::format("'{}/tools/booster' run --nproc_per_node 2 ", build);
  const CommandResult result = run_command(fmt::format("OMP_NUM_THREADS=1 {}'{}/examples/{}' {} {}",
                                                       ranks, build, program, precision, layout));
  REQUIRE_MESSAGE(result.code == 0, result.output);
  const size_t at = result.output.rfind("loss ");
  REQUIRE_MESSAGE(at != std::string::npos, result.output);
  return std::stod(result.output.substr(at + 5));
}

}  // namespace

TEST_CASE("an encoder-decoder, a CLIP pair, a diffusion step and an auxiliary loss learn") {
  // The losses begin at 2.5, 3, 1 and 1.4.
  const std::pair<const char*, double> bounds[] = {
      {"translate", 0.4}, {"clip_pair", 1.6}, {"diffusion", 0.5}, {"auxiliary_loss", 0.2}};
  unsigned cell = 0;
  for (const auto& [program, bound] : bounds)
    for (const char* precision : {"fp32", "fp16", "bf16", "fp8"})
      for (const char* layout : {"single", "torch_ddp", "low_level_zero", "fsdp", "pipeline"}) {
        if (!testing::is_drawn(cell++)) continue;
        CAPTURE(program);
        CAPTURE(precision);
        CAPTURE(layout);
        CHECK(last_loss(program, precision, layout) < bound);
      }
}

TEST_CASE("stages of several tensors print one process's losses") {
  for (const char* program : {"diffusion", "auxiliary_loss"})
    CHECK(last_loss(program, "fp32", "pipeline") ==
          doctest::Approx(last_loss(program, "fp32", "single")).epsilon(0.002));
}
