// The numerics doctor on several ranks: which rank's gradients were not finite.
#include "booster/booster.h"
#include "booster/numerics/findings.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;
using numerics::Finding;
using numerics::Findings;

namespace {

Finding finding(const char* object, int64_t step, const char* text = "") {
  Finding finding;
  finding.object = object;
  finding.step = step;
  finding.text = text;
  return finding;
}

// Returns the findings of all ranks when the loss of rank 1 is multiplied in step 2.
std::vector<Finding> findings_with(double factor_on_rank_1) {
  const World world = launch_from_env();
  manual_seed(3);
  Booster booster({.plugin = "torch_ddp", .mixed_precision = "fp16"});
  Model model = models::mlp({6, 8, 4});
  auto [net, opt] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  Diagnose doctor(net);
  for (int step = 1; step <= 3; ++step) {
    opt.zero_grad();
    const Tensor loss = mean(cast(net(full({4, 6}, 1 + world.rank)), DType::f32));
    const double factor = world.rank == 1 && step == 2 ? factor_on_rank_1 : 0.1;
    booster.backward(loss * factor, opt);
    CHECK(opt.step().skipped() == (step == 2));
  }
  doctor.stop(world.group());
  return doctor.findings();
}

const Finding* of_step_2(const std::vector<Finding>& findings) {
  const Finding* found = nullptr;
  for (const Finding& finding : findings)
    if (finding.step == 2) {
      CHECK_MESSAGE(!found, finding.to_string());
      found = &finding;
    }
  REQUIRE(found);
  return found;
}

}  // namespace

TEST_CASE("findings of all ranks are one list: who saw what, and causes instead of hearsay") {
  Findings first, second;
  first.add(finding("both", 1));
  first.add(finding("first", 1));
  Finding hearsay = finding("another rank", 2);
  hearsay.elsewhere = true;
  first.add(hearsay);
  second.add(finding("both", 1));
  second.add(finding("cause", 2, "inf in here"));
  const auto merged = Findings::merged({first, second}).list();
  REQUIRE(merged.size() == 3);
  CHECK(merged[0].ranks.empty());
  CHECK(merged[1].ranks == std::vector<int>{0});
  CHECK(merged[2].to_string() == "info, step 2, rank 1: cause: inf in here");
  CHECK(merged[2].to_json().at("ranks") == std::vector<int>{1});
  CHECK(Findings::merged({first, first}).list().size() == 3);  // no rank knows the cause
}

TEST_CASE("a finding survives its way to another rank") {
  Finding sent = finding("layer", 7, "text");
  sent.severity = numerics::Severity::error;
  sent.pitfall = numerics::Pitfall::non_finite_forward;
  sent.numbers = {{"op", "exp"}, {"inputs_maxima", {1.5, 3.0}}};
  sent.count = 4;
  CHECK(Finding::from_json(sent.to_json()).to_json() == sent.to_json());
}

TEST_CASE("rank: overflow seen by the doctor" * doctest::skip()) {
  const auto scaled = findings_with(1e5);
  const Finding* gradient = of_step_2(scaled);
  CHECK(gradient->pitfall == numerics::Pitfall::occasional_overflow);
  CHECK(gradient->ranks == std::vector<int>{1});
  CHECK(gradient->text.find("first parameter: ") != std::string::npos);
  const auto infinite = findings_with(INFINITY);
  const Finding* forward = of_step_2(infinite);
  CHECK(forward->ranks == std::vector<int>{1});
  CHECK(forward->text.find("forward overflow: the first non-finite result is mul") !=
        std::string::npos);
}
TEST_CASE("the doctor names the rank whose loss or gradient was not finite") {
  CHECK(failures(Ranks("rank: overflow seen by the doctor", 2).wait(60)) == "");
}
