// Other systems' loss scalers, step by step: every sequence of scales is bitwise equal.
#include "booster/config/config_layout.h"
#include "booster/config/options/scaler_options.h"
#include "booster/config/overrides.h"
#include "tools/scaler/loss_scale_simulation.h"

#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <sstream>

using namespace booster;

namespace {

// `scales`: the scale after each step, "AxN" for A in N steps; after "...", only the last ones.
struct ScaleSequence {
  const char* id;
  const char* preset;
  const char* options;
  const char* pattern;
  const char* scales;
  std::optional<int64_t> good, bad;
  int64_t skipped;
};

const auto any = std::nullopt;

const ScaleSequence sequences[] = {
    {"T1", "torch", "growth_interval=3 init_scale=65536", "F7", "2^16x2 2^17x3 2^18x2", 1, 0, 0},
    {"T2", "torch", "init_scale=1024 growth_interval=3", "FFIFFFI", "1024x2 512x3 1024 512", 0, 0,
     2},
    {"T3", "torch", "", "I5F2", "2^15 2^14 2^13 4096 2048x3", 2, 0, 5},
    {"T4", "torch", "init_scale=8 growth_interval=2", "FFIFFIFFFF", "8 16 8x2 16 8x2 16x2 32", 0, 0,
     2},
    {"T5", "torch", "init_scale=1 growth_interval=2", "I4FF", "2^-1 2^-2 2^-3 2^-4x2 2^-3", 0, 0,
     4},
    {"T6", "torch", "init_scale=2^127 growth_interval=1", "F3IF2", "2^127x3 2^126 2^127x2", 0, 0,
     1},
    {"T7", "torch", "growth_interval=4 growth_factor=1.5 backoff_factor=0.8", "F4I2F4",
     "2^16x3 98304 78643.2031 62914.5625x4 94371.8438", 0, 0, 2},
    {"T8", "torch", "growth_interval=1", "FIFIFI", "2^17 2^16 2^17 2^16 2^17 2^16", 0, 0, 3},
    {"T9", "torch", "init_scale=4 growth_interval=2", "FIFIFFFF", "4 2x2 1x2 2x2 4", 0, 0, 2},
    {"T10", "torch", "", "F1999IF2000F2000", "... 2^16x1999 2^15x2000 2^16x2000 2^17", 0, 0, 1},
    {"T11", "torch", "init_scale=2^-147 growth_interval=10 bug_compatible=true", "I4F",
     "2^-148 2^-149 0x3", 1, 0, 4},
    {"T12", "torch", "bug_compatible=true", "I166", "... 2^-147 2^-148 2^-149 0", 0, 0, 166},
    {"T12 refused", "torch", "", "I166", "... 2^-126 2^-127x24", 0, 0, 166},

    {"A1", "apex", "scale_window=3", "F7", "2^16x2 2^17x3 2^18x2", 1, 0, 0},
    {"A2", "apex", "scale_window=3", "FFIFFFI", "2^16x2 2^15x3 2^16 2^15", 0, 0, 2},
    {"A3", "apex", "", "I5F2", "2^15 2^14 2^13 4096 2048x3", 2, 0, 5},
    {"A4", "apex", "scale_window=2 min_loss_scale=16384", "I4FFFF", "2^15 2^14x4 2^15x2 2^16", 0, 0,
     4},
    {"A5", "apex", "scale_window=2 max_loss_scale=2^17", "F8", "2^16 2^17x7", 0, 0, 0},
    {"A6", "apex", "scale_window=2 max_loss_scale=1024", "F4IF2", "1024x4 512x2 1024", 0, 0, 1},
    {"A7", "apex", "scale_window=1", "FIFIII", "2^17 2^16 2^17 2^16 2^15 2^14", 0, 0, 4},
    {"A8", "apex", "loss_scale=128.0", "FIIFF", "128x5", 5, 0, 0},
    {"A9", "apex", "bug_compatible=true", "I1091", "... 2^-1072 2^-1073 2^-1074 0", 0, 0, 1091},
    {"A9 refused", "apex", "", "I1091", "... 2^-126 2^-127x949", 0, 0, 1091},
    {"A10", "apex", "min_loss_scale=1", "I20F", "... 8 4 2 1x6", 1, 0, 20},
    {"A11", "apex", "", "F2000F1999IF2000", "... 2^16x1999 2^17x2000 2^16x2000 2^17", 0, 0, 1},
    {"A12", "apex", "scale_window=1", "F10", "2^17 2^18 2^19 2^20 2^21 2^22 2^23 2^24x3", 0, 0, 0},

    {"P1", "paddle_dynamic", "init_loss_scaling=1024 incr_every_n_steps=3", "F7",
     "1024x2 2048x3 4096x2", 1, 0, 0},
    {"P2", "paddle_dynamic",
     "init_loss_scaling=1024 incr_every_n_steps=3 decr_every_n_nan_or_inf=2", "IIFIFIIII",
     "1024 512x5 256x2 128", 0, 0, 7},
    {"P3", "paddle_dynamic",
     "init_loss_scaling=1024 incr_every_n_steps=3 decr_every_n_nan_or_inf=2", "IFIFIFFF",
     "1024x7 2048", 0, 0, 3},
    {"P4", "paddle_dynamic",
     "init_loss_scaling=32768 incr_every_n_steps=1000 decr_every_n_nan_or_inf=2 decr_ratio=0.8",
     "I6", "2^15 26214.4004x2 20971.5215x2 16777.2168", 0, 0, 6},
    {"P5", "paddle_dynamic", "init_loss_scaling=1 incr_every_n_steps=2", "I3FF",
     "2^-1 2^-2 2^-3x2 2^-2", 0, 0, 3},
    {"P6", "paddle_dynamic", "init_loss_scaling=2^127 incr_every_n_steps=1 bug_compatible=true",
     "F2I2", "infx4", 0, 0, 2},
    {"P6 refused", "paddle_dynamic", "init_loss_scaling=2^127 incr_every_n_steps=1", "F2I2",
     "2^127x2 2^126 2^125", 0, 0, 2},
    {"P7", "paddle_dynamic", "", "I3F2", "2^15 2^14 2^13x3", 2, 0, 3},
    {"P8", "paddle_dynamic", "init_loss_scaling=1024 use_dynamic_loss_scaling=false", "FIIF",
     "1024x4", 0, 0, 2},
    {"P9", "paddle_dynamic", "init_loss_scaling=8 incr_every_n_steps=2 decr_every_n_nan_or_inf=3",
     "IIFFIIIFF", "8x3 16x3 8x2 16", 0, 0, 5},

    {"Q1", "paddle_static", "init_loss_scaling=1024 incr_every_n_steps=3 decr_every_n_nan_or_inf=2",
     "IIFIFIIII", "1024 512x5 256x2 128", 0, 0, 7},
    {"Q2", "fleet", "", "I8F", "2^15 26214.4004x2 20971.5215x2 16777.2168x2 13421.7734x2", 1, 0, 8},
    {"Q3", "paddle_static", "init_loss_scaling=2 incr_every_n_steps=2", "I3FF", "1x4 2", 0, 0, 3},
    {"Q4", "paddle_static", "init_loss_scaling=1.1 incr_every_n_steps=2 decr_ratio=0.8", "I2FF",
     "1x3 2", 0, 0, 2},
    {"Q5", "paddle_static", "init_loss_scaling=2^127 incr_every_n_steps=1", "F3IF2",
     "2^127x3 2^126 2^127x2", 0, 0, 1},
    {"Q6", "paddle_static", "init_loss_scaling=128 incr_every_n_steps=2", "FFIFFIFF",
     "128 256 128x2 256 128x2 256", 0, 0, 2},
    {"Q7", "paddle_static", "", "I3F2", "2^15 2^14 2^13x3", 2, 0, 3},
    {"Q8", "fleet", "", "F1000IIF999F", "... 2^15x999 2^16x2 52428.8008x1000 104857.602", 0, 0, 2},

    {"C1", "colossal", "initial_scale=1024 growth_interval=3", "F7", "1024x2 2048x3 4096x2", 1, 0,
     0},
    {"C2", "colossal", "initial_scale=1024 growth_interval=3", "IFFIFFIFF", "1024x3 512x3 256x3", 2,
     3, 3},
    {"C3", "colossal", "initial_scale=1024 growth_interval=3", "IIIIFFFI",
     "1024 512 256 128x3 256x2", 0, 1, 5},
    {"C4", "colossal", "initial_scale=1024 growth_interval=3 hysteresis=1", "IIFFFI",
     "512 256x3 512 256", 0, 1, 3},
    {"C5", "colossal", "initial_scale=1024 growth_interval=3 hysteresis=0", "IFI", "512x2 256", any,
     2, 2},
    {"C6", "colossal", "initial_scale=4 growth_interval=2 hysteresis=1 min_scale=1", "I4FF",
     "2 1x4 2", 0, 0, 4},
    {"C7", "colossal", "initial_scale=2147483648 growth_interval=1 max_scale=2^32", "F3I2",
     "2^32x4 2^31", 0, 2, 2},
    {"C8", "colossal", "initial_scale=1024 growth_interval=2 hysteresis=3", "IIIIFFIIIF",
     "1024x2 512 256x2 512x3 256x2", 1, 3, 7},
    {"C9", "colossal",
     "initial_scale=1024 growth_interval=2 growth_factor=3 backoff_factor=0.25 min_scale=none",
     "IIFFII", "1024 256x2 768x2 192", 0, 2, 4},
    {"C10", "colossal", "", "I4F1000I", "... 2^15 2^14 2^13x1000 2^14x2", 0, 1, 5},

    {"M1", "megatron", "initial_scale=1024 growth_interval=3", "IFFIFFIFF", "1024x3 512x3 256x3", 2,
     -1, 3},
    {"M2", "megatron", "initial_scale=1024 growth_interval=3", "IIIIFFFI",
     "1024 512 256 128x3 256x2", 0, 1, 5},
    {"M3", "megatron", "", "I3F", "2^32 2^31 2^30x2", 1, -1, 3},

    {"D1", "deepspeed", "initial_scale_power=10 loss_scale_window=3", "F8", "1024x3 2048x3 4096x2",
     any, 2, 0},
    {"D2", "deepspeed", "initial_scale_power=10 loss_scale_window=3", "IFFIFFFFI",
     "1024x3 512x4 1024x2", any, 1, 3},
    {"D3", "deepspeed", "initial_scale_power=10 loss_scale_window=3 consecutive_hysteresis=true",
     "IFIFIIFFFF", "1024x5 512x4 1024", any, 2, 4},
    {"D4", "deepspeed", "initial_scale_power=2 loss_scale_window=3 hysteresis=1 min_loss_scale=1",
     "I4", "2 1 1", any, 1, 2},
    {"D5", "deepspeed", "initial_scale_power=10 loss_scale_window=3", "IIIFFFFFFF",
     "1024 512 256x4 512x3 1024", any, 2, 3},

    {"H1", "torch", "init_scale=1024 growth_interval=3 hysteresis=2 hysteresis_mode=consecutive",
     "IFIIFFFI", "1024x3 512x3 1024x2", 0, 1, 4},
    {"H2", "torch", "init_scale=1024 growth_interval=3 hysteresis=2 hysteresis_mode=consecutive",
     "IIIIFI", "1024 512 256 128x3", 0, 1, 5},
    {"H1 by colossal", "colossal",
     "initial_scale=1024 growth_interval=3 hysteresis=2 hysteresis_mode=consecutive", "IFIIFFFI",
     "1024x3 512x3 1024x2", 0, 1, 4},
    {"H1 by megatron", "megatron",
     "initial_scale=1024 growth_interval=3 hysteresis=2 hysteresis_mode=consecutive", "IFIIFFFI",
     "1024x3 512x3 1024x2", 0, 1, 4},
};

OptionTable options_of(const std::string& preset) {
  OptionTable table = scaler_options(preset);
  table.push_back(boolean_option("bug_compatible", false, ""));
  return table;
}

double number(const std::string& text, bool f32) {
  if (text.rfind("2^", 0) == 0) return std::ldexp(1.0, std::stoi(text.substr(2)));
  const double value = std::strtod(text.c_str(), nullptr);
  return f32 ? static_cast<double>(static_cast<float>(value)) : value;
}

LossScalePolicy policy_of(const std::string& preset, const std::string& options) {
  JsonValue root;
  root.kind = JsonKind::object;
  std::istringstream words(options);
  for (std::string word; words >> word;) {
    const size_t power = word.find("=2^");
    if (power != word.npos)
      word = fmt::format("{}={}", word.substr(0, power), number(word.substr(power + 1), false));
    apply_override(root, word);
  }
  Section section;
  section.options = options_of(preset);
  const OptionValues values(checked_section(section, &root, ""));
  LossScalePolicy policy = scaler_policy(preset, values);
  policy.refuses = !values.get<bool>("bug_compatible");
  return policy;
}

// Expands "1024x2 512" to 1024, 1024, 512; drops a leading "...".
std::vector<double> expanded(const std::string& scales, bool f32) {
  std::vector<double> values;
  std::istringstream words(scales);
  for (std::string word; words >> word;) {
    if (word == "...") continue;
    const size_t times = word.find('x');
    const int count = times == word.npos ? 1 : std::stoi(word.substr(times + 1));
    values.insert(values.end(), static_cast<size_t>(count), number(word.substr(0, times), f32));
  }
  return values;
}

std::vector<SimulatedStep> simulated(const char* preset, const char* options, const char* pattern) {
  return simulate(find_loss_scale_preset(preset), policy_of(preset, options), steps_of(pattern));
}

}  // namespace

TEST_CASE("every preset follows its original's scales, counters and skips") {
  for (const ScaleSequence& row : sequences) {
    CAPTURE(row.id);
    const auto steps = simulated(row.preset, row.options, row.pattern);
    const auto want = expanded(row.scales, !loss_scale_preset(row.preset).f64_scale);
    REQUIRE(steps.size() >= want.size());
    if (row.scales[0] != '.') CHECK(steps.size() == want.size());
    const size_t first = steps.size() - want.size();
    int64_t skipped = 0;
    for (size_t i = 0; i < steps.size(); ++i) {
      CAPTURE(i);
      if (i >= first) CHECK(steps[i].scale == want[i - first]);
      skipped += steps[i].skipped;
    }
    if (row.good) CHECK(steps.back().good == *row.good);
    if (row.bad) CHECK(steps.back().bad == *row.bad);
    CHECK(skipped == row.skipped);
  }
}

TEST_CASE("a refusal is told in the step where it happens, and the last usable scale is kept") {
  const auto grown =
      simulated("paddle_dynamic", "init_loss_scaling=2^126 incr_every_n_steps=1", "F3");
  CHECK(grown[0].diagnosis.empty());
  CHECK(grown[1].diagnosis.find("growth beyond the range of f32 was refused") != std::string::npos);
  CHECK(grown[2].scale == 0x1p127);
  const auto fallen = simulated("torch", "init_scale=2^-126", "I2F");
  CHECK(fallen[0].diagnosis.empty());
  CHECK(fallen[1].diagnosis.find("collapsed") != std::string::npos);
  CHECK(fallen[1].scale == 0x1p-127);
  CHECK(fallen[1].skipped);
  CHECK(fallen[2].diagnosis.empty());
}

TEST_CASE("DeepSpeed ends at the smallest scale, unless told not to") {
  const char* options = "initial_scale_power=2 hysteresis=1";
  const auto ended = simulated("deepspeed", options, "I4");
  REQUIRE(ended.size() == 3);
  CHECK(ended[2].ended);
  CHECK(ended[2].diagnosis.find("smallest allowed scale") != std::string::npos);
  const auto kept = simulated(
      "deepspeed", "initial_scale_power=2 hysteresis=1 raise_error_at_min_scale=false", "I4");
  REQUIRE(kept.size() == 4);
  CHECK(kept[3].scale == 1);
  CHECK(kept[3].skipped);
}

TEST_CASE("factors are rounded to f32 where the original does so") {
  const auto scale = [](const char* preset, const char* options) {
    return simulated(preset, options, "I3").back().scale;
  };
  // 65536 backed off three times by 0.8, which f32 cannot represent.
  const auto exactly = [](double factor) {
    float value = 65536;
    for (int i = 0; i < 3; ++i) value = static_cast<float>(value * factor);
    return static_cast<double>(value);
  };
  CHECK(exactly(0.8) != exactly(0.8f));
  CHECK(scale("torch", "backoff_factor=0.8") == exactly(0.8));
  CHECK(scale("paddle_dynamic", "decr_ratio=0.8") == exactly(0.8f));
  CHECK(scale("colossal", "backoff_factor=0.8 hysteresis=1") == exactly(0.8f));
  CHECK(scale("megatron", "initial_scale=65536 backoff_factor=0.8 hysteresis=1") == exactly(0.8f));
}

TEST_CASE("wrong presets, options, values and patterns are errors that name what is right") {
  CHECK_THROWS_WITH_AS(find_loss_scale_preset("megatorn"), doctest::Contains("mean megatron?"),
                       Error);
  CHECK_THROWS_WITH_AS(policy_of("apex", "scale_windw=3"), doctest::Contains("mean scale_window?"),
                       Error);
  CHECK_THROWS_WITH_AS(policy_of("fleet", "decr_ratio=1"), doctest::Contains("in (0, 1)"), Error);
  CHECK_THROWS_WITH_AS(policy_of("apex", "loss_scale=\"static\""),
                       doctest::Contains("a number > 0 or dynamic"), Error);
  CHECK_THROWS_WITH_AS(policy_of("colossal", "min_scale=1e6"), doctest::Contains("min_scale"),
                       Error);
  CHECK_THROWS_WITH_AS(policy_of("megatron", "hysteresis=0"), doctest::Contains(">= 1"), Error);
  CHECK_THROWS_WITH_AS(simulated("torch", "init_scale=2^-147", "F"),
                       doctest::Contains("out of range"), Error);
  for (const char* pattern :
       {"", "F0", "X", "3F", "F1000001", "F999999I2", "FI F", "f", "F99999999999999999999"})
    CHECK_THROWS_WITH_AS(steps_of(pattern), doctest::Contains("pattern: "), Error);
  CHECK(steps_of("F3I2F") == std::vector<bool>{false, false, false, true, true, false});
}
