#include "plugins/torch_ddp.h"

#include "booster/config/builtins.h"
#include "booster/config/options/options.h"

namespace booster {

namespace {

FieldTable<TorchDDPOptions> ddp_fields() {
  using Fields = TorchDDPOptions;
  return {field("bucket_cap_mb", &Fields::bucket_cap_mb, above(0),
                "gradient bytes of one all-reduce at most, in MiB"),
          field("find_unused_parameters", &Fields::find_unused_parameters,
                "let parameters take no part in a step"),
          field("broadcast_buffers", &Fields::broadcast_buffers,
                "rank 0's buffers go to all after each step"),
          field("gradient_as_bucket_view", &Fields::gradient_as_bucket_view,
                "gradients live in the buckets: no copy"),
          field("static_graph", &Fields::static_graph,
                "every step uses the same parameters; some may be unused"),
          field("comm_dtype", &Fields::comm_dtype, {"", "fp16", "bf16"},
                "f32 gradients travel in this dtype, summed in f32"),
          field("join", &Fields::join, "ranks share the data unevenly, each sample counts once")};
}

}  // namespace

RegistryEntry<Plugin> torch_ddp_plugin() {
  return {.name = "torch_ddp",
          .description =
              "data parallel: every rank holds the model, gradients are averaged in "
              "buckets during backward",
          .options = ddp_fields().options(),
          .make = maker<TorchDdp>(ddp_fields()),
          .options_for = [](const Layout& layout) -> std::optional<nlohmann::json> {
            if (!layout.is_data_alone() || layout.zero_stage > 0) return std::nullopt;
            return nlohmann::json::object();
          }};
}

}  // namespace booster
