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
  return {choice_option(
              "style", "column", {"column", "row", "vocabulary", "shared"},
              "column: some output features on each rank; row: some input features; "
              "vocabulary: some entries of an embedding; shared: whole parameters (by patterns of "
              "their names or modules) that work on parts, with summed gradients"),
          integer_option("groups", Layer().groups, at_least(1),
                         "consecutive matrices, each cut by itself: 3 for q, k and v"),
          boolean_option("gather", Layer().gather, "all ranks get all output features")};
}

FieldRow<Hybrid> tensor_plan() {
  return {table_option(
              "tensor_plan", layer_options(),
              "cuts of layers, by patterns of module names with * and ?; {}: the model's own plan"),
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
                "ranks that see different data; 0: all remaining ranks"),
          field("zero_stage", &Hybrid::zero_stage, between(0, 3),
                "state that ranks along the data axis shard: 0 none, 1 optimizer state, 2 also "
                "gradients, 3 also parameters"),
          tensor_plan(),
          field("parallel_output", &Hybrid::parallel_output,
                "in training, logits of a cut head stay on their ranks for cross_entropy; other "
                "readers gather them on all ranks"),
          field("sequence_parallelism_mode", &Hybrid::sequence_parallelism_mode,
                {"none", "split_gather", "all_to_all", "ring_attn"},
                "split_gather: tensor ranks share the tokens between cut layers; all_to_all: ranks "
                "share the tokens, and in attention the heads; ring_attn: in attention, keys and "
                "values circulate"),
          field("sequence_blocks", &Hybrid::sequence_blocks,
                "pattern of the consecutive modules that work on some tokens; \"\": the model's "
                "own blocks"),
          field("pp_style", &Hybrid::pp_style, pipeline_style_names(),
                "order in which stages process the microbatches of a batch"),
          field("num_microbatches", &Hybrid::num_microbatches, at_least(0),
                "microbatches of a batch; 0 with microbatch_size 0: one per stage"),
          field("microbatch_size", &Hybrid::microbatch_size, at_least(0),
                "maximum of rows of a microbatch, instead of the number of microbatches"),
          field("num_model_chunks", &Hybrid::num_model_chunks, at_least(1),
                "pieces of the model on each stage; 2 or more with pp_style interleaved"),
          field("stages", &Hybrid::stages, at_least(1),
                "links of each stage, such as a ViT's embedding, blocks and head; []: cut by "
                "parameter counts"),
          field("stage_links", &Hybrid::stage_links,
                "the same, as the name of each stage's first link"),
          field("stage_costs", &Hybrid::stage_costs, {"parameters", "measured"},
                "quantity to balance if neither of these is given: parameter counts, or each "
                "link's time, forward and backward, on the model's example input"),
          field("recompute", &Hybrid::recompute,
                "blocks keep only their inputs and run again in backward"),
          field("bucket_cap_mb", &Hybrid::bucket_cap_mb, above(0),
                "MiB of gradients in one message along the data axis")};
}

// Returns the idle options: a user can try several mesh sizes without changing other options.
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
