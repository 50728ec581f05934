#include "tools/scaler/loss_scale_simulation.h"

#include "mixed_precision/scaling/loss_scale_rules.h"

#include <charconv>

namespace booster {

namespace {

constexpr size_t most_steps = 1'000'000;

// Removes and returns the count at the start of `text`; returns 1 if there is none.
size_t take_count(std::string_view& text, std::string_view pattern) {
  size_t digits = 0;
  while (digits < text.size() && text[digits] >= '0' && text[digits] <= '9') ++digits;
  if (digits == 0) return 1;
  size_t count = 0;
  const auto result = std::from_chars(text.data(), text.data() + digits, count);
  check(result.ec == std::errc() && count <= most_steps,
        "pattern: too many steps; got {} in {}, want at most {}",
        text.substr(0, digits).substr(0, 40), pattern.substr(0, 60), most_steps);
  check(count >= 1, "pattern: a count is 0; got {}, want counts from 1", pattern.substr(0, 60));
  text.remove_prefix(digits);
  return count;
}

int64_t shown_good(const LossScalePolicy& policy, const LossScaleState& state) {
  if (!policy.free_first_step || state.good == 0) return state.good;
  return policy.growth_interval > 0 ? (state.good - 1) % policy.growth_interval : state.good - 1;
}

SimulatedStep shown(const LossScalePreset& preset, const LossScalePolicy& policy,
                    const LossScaleState& before, const LossScaleState& after, bool bad) {
  SimulatedStep step;
  const bool refused = after.refusals > before.refusals;
  step.ended = refused && after.refused == ScaleRefusal::at_minimum;
  step.skipped = bad && policy.skips && !step.ended;
  step.scale = after.scale;
  step.good = shown_good(policy, after);
  step.bad = preset.counts_down ? policy.hysteresis - after.bad : after.bad;
  if (refused) step.diagnosis = diagnosis(after);
  return step;
}

}  // namespace

std::vector<bool> steps_of(std::string_view pattern) {
  check(!pattern.empty(), "pattern: empty; want letters F and I with counts, as F3I2F");
  std::vector<bool> steps;
  for (std::string_view rest = pattern; !rest.empty();) {
    const char letter = rest.front();
    check(
        letter == 'F' || letter == 'I',
        "pattern: unknown letter; got {} at character {} of {}, want F (finite) or I (not finite) "
        "with counts, as F3I2F",
        letter, pattern.size() - rest.size() + 1, pattern.substr(0, 60));
    rest.remove_prefix(1);
    const size_t count = take_count(rest, pattern);
    check(steps.size() + count <= most_steps, "pattern: too many steps; want at most {}",
          most_steps);
    steps.insert(steps.end(), count, letter == 'I');
  }
  return steps;
}

std::vector<SimulatedStep> simulate(const LossScalePreset& preset, const LossScalePolicy& policy,
                                    const std::vector<bool>& steps, CountedSteps counted) {
  check(counted.good >= 0 && counted.bad >= 0,
        "scaler: negative count of steps; got {} good and {} bad, want 0 or more", counted.good,
        counted.bad);
  std::vector<SimulatedStep> simulated;
  simulated.reserve(steps.size());
  LossScaleState state = first_state(policy);
  state.good = counted.good + (policy.free_first_step && counted.good > 0 ? 1 : 0);
  state.bad = counted.bad;
  for (const bool bad : steps) {
    const LossScaleState after = next(policy, state, bad);
    simulated.push_back(shown(preset, policy, state, after, bad));
    if (simulated.back().ended) break;
    state = after;
  }
  return simulated;
}

}  // namespace booster
