#include "plugins/hybrid_parallel.h"

#include "booster/config/builtins.h"
#include "booster/config/options/options.h"
#include "plugins/tensor/tensor_plan.h"

#include <algorithm>

namespace booster {

namespace {

using Hybrid = HybridParallelOptions;

OptionTable layer_options() {
  using Layer = LayerPlan;
  return {choice_option("style", "column", {"column", "row", "vocabulary", "shared"},
                        "column: some output features on each rank; row: some input features; "
                        "vocabulary: some entries of an embedding; shared: parameters (by patterns "
                        "of their names or modules) that are whole but work on parts: their "
                        "gradients are summed"),
          integer_option("groups", Layer().groups, at_least(1),
                         "matrices one behind the other, each of which is cut: 3 for q, k and v"),
          boolean_option("gather", Layer().gather, "all ranks get all output features")};
}

FieldRow<Hybrid> tensor_plan() {
  return {table_option("tensor_plan", layer_options(),
                       "how layers are cut, by patterns of module names with * and ?; {} stands "
                       "for the plan that comes with the model"),
          [](Hybrid& fields, const OptionValues& values) {
            for (const auto& [pattern, layer] : values.values().at("tensor_plan").items())
              fields.tensor_plan.push_back(
                  {pattern,
                   {.style = split_style_named(layer.at("style").get<std::string>()),
                    .groups = layer.at("groups").get<int64_t>(),
                    .gather = layer.at("gather").get<bool>()}});
          }};
}

FieldTable<Hybrid> hybrid_fields() {
  return {field("tp_size", &Hybrid::tp_size, at_least(1), "ranks that share each layer"),
          field("pp_size", &Hybrid::pp_size, at_least(1),
                "ranks that have different layers: the stages of a pipeline"),
          field("sp_size", &Hybrid::sp_size, at_least(1),
                "ranks that share the tokens, with sequence_parallelism_mode all_to_all or "
                "ring_attn"),
          field("dp_size", &Hybrid::dp_size, at_least(0),
                "ranks that see different data; 0: as many as are left"),
          field("zero_stage", &Hybrid::zero_stage, between(0, 3),
                "what ranks along the data axis keep a part of: 0 nothing, 1 optimizer state, 2 "
                "gradients too, 3 parameters too"),
          tensor_plan(),
          field("parallel_output", &Hybrid::parallel_output,
                "in training, logits of a head that is cut stay on their ranks for cross_entropy; "
                "all ranks gather them where anything else reads them"),
          field("sequence_parallelism_mode", &Hybrid::sequence_parallelism_mode,
                {"none", "split_gather", "all_to_all", "ring_attn"},
                "split_gather: tensor ranks have some tokens each between layers that are cut; "
                "all_to_all: ranks have some tokens each, and in attention some heads; ring_attn: "
                "in attention keys and values go from rank to rank"),
          field("sequence_blocks", &Hybrid::sequence_blocks,
                "pattern of the modules that work on some tokens, one after the other; \"\" stands "
                "for the blocks that come with the model"),
          field("pp_style", &Hybrid::pp_style, pipeline_style_names(),
                "how stages take turns with the microbatches of a batch"),
          field("num_microbatches", &Hybrid::num_microbatches, at_least(0),
                "pieces of a batch; 0, and microbatch_size 0: as many as there are stages"),
          field("microbatch_size", &Hybrid::microbatch_size, at_least(0),
                "rows of a piece at most, instead of their number"),
          field("num_model_chunks", &Hybrid::num_model_chunks, at_least(1),
                "pieces of the model on each stage; 2 or more with pp_style interleaved"),
          field("stages", &Hybrid::stages, at_least(1),
                "links of each stage, such as a ViT's embedding, blocks and head; []: cut by "
                "numbers of parameters"),
          field("stage_links", &Hybrid::stage_links,
                "the same, by the name of each stage's first link"),
          field("stage_costs", &Hybrid::stage_costs, {"parameters", "measured"},
                "what comes out even where neither of these is given: numbers of parameters, or "
                "the time of each link, forward and backward, on an example input of the model"),
          field("recompute", &Hybrid::recompute,
                "blocks keep their inputs only, and run again in backward"),
          field("bucket_cap_mb", &Hybrid::bucket_cap_mb, above(0),
                "MiB of gradients in one message along the data axis")};
}

// A config can be tried with several mesh sizes without changing its other options.
IdleTable idle_options() {
  const auto mode_is = [](std::initializer_list<const char*> modes) {
    return
        [modes = std::vector<std::string>(modes.begin(), modes.end())](const OptionValues& values) {
          const auto mode = values.get<std::string>("sequence_parallelism_mode");
          return std::find(modes.begin(), modes.end(), mode) != modes.end();
        };
  };
  const auto both = [](auto first, auto second) {
    return [=](const OptionValues& values) { return first(values) && second(values); };
  };
  const auto alone = [](const char* size) { return option_is<int64_t>(size, 1); };
  return {{{"tensor_plan", "parallel_output"}, alone("tp_size"), "with tp_size = 1"},
          {{"pp_style", "num_microbatches", "microbatch_size", "num_model_chunks", "stages",
            "stage_links", "stage_costs"},
           alone("pp_size"),
           "with pp_size = 1"},
          {{"sequence_blocks"}, mode_is({"none"}), "with sequence_parallelism_mode = none"},
          {{"sequence_parallelism_mode", "sequence_blocks"},
           both(mode_is({"split_gather"}), alone("tp_size")),
           "with tp_size = 1"},
          {{"sequence_parallelism_mode", "sequence_blocks"},
           both(mode_is({"all_to_all", "ring_attn"}), alone("sp_size")),
           "with sp_size = 1"}};
}

}  // namespace

RegistryEntry<Plugin> hybrid_parallel_plugin() {
  return {.name = "hybrid_parallel",
          .description = "tensor, pipeline, sequence and data parallel with ZeRO, on one mesh",
          .options = hybrid_fields().options(),
          .make = maker<HybridParallel>(hybrid_fields()),
          .idle = idle_options(),
          .layout = [table = hybrid_fields()](
                        const OptionValues& values) { return layout_of(table.read(values)); },
          .options_for = [](const Layout& layout) -> std::optional<nlohmann::json> {
            nlohmann::json options = {{"tp_size", layout.tensor},
                                      {"pp_size", layout.pipeline},
                                      {"sp_size", layout.sequence},
                                      {"zero_stage", layout.zero_stage}};
            if (layout.sequence > 1) options["sequence_parallelism_mode"] = "all_to_all";
            return options;
          }};
}

}  // namespace booster
