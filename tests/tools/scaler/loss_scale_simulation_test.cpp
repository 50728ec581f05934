// Simulated loss scalers.
#include "tools/scaler/loss_scale_simulation.h"

#include "platform/error.h"

#include <doctest/doctest.h>

#include <random>

using namespace booster;

TEST_CASE("a simulation that starts from counted steps goes on as the one that counted them") {
  std::mt19937 random(6);
  int grown = 0, backed_off = 0;
  for (const LossScalePreset& preset : loss_scale_presets())
    for (int trial = 0; trial < 40; ++trial) {
      LossScalePolicy policy = preset.policy;
      policy.growth_interval = 3;
      std::vector<bool> steps(14);
      for (size_t i = 0; i < steps.size(); ++i) steps[i] = random() % 3 == 0;
      const size_t cut = 1 + random() % 10;
      const auto whole = simulate(preset, policy, steps);
      if (whole.size() < steps.size()) continue;  // the sequence has ended
      const SimulatedStep& at = whole[cut - 1];
      if (policy.free_first_step && at.good == 0) continue;  // two indistinguishable states
      LossScalePolicy later = policy;
      later.init = at.scale;
      const CountedSteps counted = {at.good,
                                    preset.counts_down ? policy.hysteresis - at.bad : at.bad};
      const auto rest = simulate(preset, later, {steps.begin() + cut, steps.end()}, counted);
      CAPTURE(preset.name);
      REQUIRE(rest.size() == steps.size() - cut);
      for (size_t i = 0; i < rest.size(); ++i) {
        CHECK(rest[i].scale == whole[cut + i].scale);
        CHECK(rest[i].good == whole[cut + i].good);
        CHECK(rest[i].bad == whole[cut + i].bad);
        grown += rest[i].scale > at.scale;
        backed_off += rest[i].scale < at.scale;
      }
    }
  CHECK(grown > 50);
  CHECK(backed_off > 50);
  const LossScalePreset& torch = find_loss_scale_preset("torch");
  CHECK_THROWS_AS(simulate(torch, torch.policy, {false}, {.good = -1}), Error);
}
