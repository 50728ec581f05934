// Options that are accepted but have no effect: one table per strategy makes the user see one note.
#include "booster/booster.h"
#include "booster/config/config_layout.h"
#include "booster/config/options/option_tables.h"

#include <doctest/doctest.h>

using namespace booster;

namespace {

// Returns a strategy's notes about options without effect.
std::vector<std::string> idle(const std::string& name, const std::string& options) {
  const Config config = Config::from_text(
      R"({"booster": {"mixed_precision": {"name": ")" + name + R"(", )" + options + "}}}", "test");
  const auto made = precision_registry().make(config.options("booster.mixed_precision"));
  std::vector<std::string> told;
  for (const std::string& note : made->notes())
    if (note.find("no effect") != std::string::npos) told.push_back(note.substr(name.size() + 2));
  return told;
}

using Told = std::vector<std::string>;

}  // namespace

TEST_CASE("options of another level of Paddle's are told of, together") {
  CHECK(idle("fp16_paddle", R"("use_promote": false, "master_grad": true)") ==
        Told{"use_promote, master_grad have no effect at a level other than O2"});
  CHECK(idle("fp16_paddle", R"("level": "O2", "use_promote": false, "master_grad": true)").empty());
  CHECK(idle("fp16_paddle", R"("level": "O0", "custom_white_list": ["gelu"], "incr_ratio": 3)") ==
        Told{"custom_white_list, incr_ratio have no effect at level O0"});
  CHECK(idle("fp16_paddle", R"("use_pure_fp16": true, "master_grad": true)") ==
        Told{"master_grad has no effect while use_fp16_guard keeps the model in f32"});
}

TEST_CASE("what a fixed scale leaves unused is told of, in amp_configs too") {
  CHECK(idle("fp16_paddle", R"("use_dynamic_loss_scaling": false, "decr_ratio": 0.25)") ==
        Told{"decr_ratio has no effect with use_dynamic_loss_scaling = false"});
  CHECK(idle("fp16_paddle",
             R"("amp_configs": {"use_dynamic_loss_scaling": false, "decr_ratio": 0.5,
                                "use_fp16_guard": false, "use_optimizer_fp16": true})") ==
        Told{"amp_configs.use_fp16_guard has no effect at a level other than O2",
             "amp_configs.use_optimizer_fp16 has no effect outside automatic parallelism",
             "amp_configs.decr_ratio has no effect with use_dynamic_loss_scaling = false"});
  CHECK(idle("fp16_paddle", R"("dtype": "bfloat16", "init_loss_scaling": 4)") ==
        Told{"init_loss_scaling has no effect in bfloat16, whose loss is not scaled"});
  CHECK(idle("fp16_apex", R"("loss_scale": 128, "max_loss_scale": 1024)") ==
        Told{"max_loss_scale has no effect with a fixed loss_scale"});
  CHECK(idle("fp16", R"("growth_interval": 0, "growth_factor": 3)") ==
        Told{"growth_factor has no effect with growth_interval = 0"});
}

TEST_CASE("other strategies tell of theirs, and say nothing of defaults") {
  CHECK(idle("fp16_apex", R"("opt_level": "O2", "half_functions": ["gelu"])") ==
        Told{"half_functions has no effect at a level other than O1"});
  CHECK(idle("fp16_apex", R"("enabled": false, "opt_level": "O2", "loss_scale": 128)") ==
        Told{"opt_level, loss_scale have no effect with enabled = false"});
  CHECK(idle("bf16", R"("seed": 7)") == Told{"seed has no effect unless update is stochastic"});
  CHECK(idle("fp8", R"("scaling": "current", "margin": 1)") ==
        Told{"margin has no effect with scaling = current"});
  CHECK(idle("fp8", R"("amax_epsilon": 1e-6)") ==
        Told{"amax_epsilon has no effect with scaling = delayed"});
  for (const std::string& name : precision_registry().names())
    CHECK(precision_registry().make(name)->notes().size() <= 1);
}

TEST_CASE("every row of every table names options that exist") {
  const auto check_entries = [](const auto& registry) {
    for (const auto& entry : registry.entries())
      CHECK_NOTHROW(
          told_of_idle(entry.idle, entry.options, OptionValues(default_values(entry.options))));
  };
  check_entries(precision_registry());
  check_entries(plugin_registry());
}

TEST_CASE("a mesh tells of options for axes that it does not have") {
  const auto told = [](const std::string& options) {
    const Config config = Config::from_text(
        R"({"booster": {"plugin": {"name": "hybrid_parallel", )" + options + "}}}", "test");
    CHECK(check_objects(config) == plugin_registry().idle_notes(config.options("booster.plugin")));
    return check_objects(config);
  };
  CHECK(told(R"("parallel_output": true)") ==
        Told{"hybrid_parallel: parallel_output has no effect with tp_size = 1"});
  CHECK(told(R"("parallel_output": true, "tp_size": 2)").empty());
  CHECK(told(R"("pp_style": "zero_bubble", "num_microbatches": 4)") ==
        Told{"hybrid_parallel: pp_style, num_microbatches have no effect with pp_size = 1"});
  CHECK(told(R"("pp_style": "zero_bubble", "num_microbatches": 4, "pp_size": 2)").empty());
  CHECK(told(R"("sequence_blocks": "h.*")") ==
        Told{"hybrid_parallel: sequence_blocks has no effect with "
             "sequence_parallelism_mode = none"});
  CHECK(told(R"("sequence_parallelism_mode": "split_gather")") ==
        Told{"hybrid_parallel: sequence_parallelism_mode has no effect with tp_size = 1"});
  CHECK(told(R"("sequence_parallelism_mode": "ring_attn", "sequence_blocks": "h.*")") ==
        Told{"hybrid_parallel: sequence_parallelism_mode, sequence_blocks have no effect with "
             "sp_size = 1"});
  CHECK(told(R"("sequence_parallelism_mode": "ring_attn", "sp_size": 2)").empty());
}
