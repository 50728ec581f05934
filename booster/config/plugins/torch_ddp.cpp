#include "plugins/torch_ddp.h"

#include "booster/config/builtins.h"
#include "booster/config/options/options.h"

namespace booster {

namespace {

FieldTable<TorchDDPOptions> ddp_fields() {
  using Fields = TorchDDPOptions;
  return {
      field("bucket_cap_mb", &Fields::bucket_cap_mb, above(0),
            "maximum of gradient bytes in one all-reduce, in MiB"),
      field("find_unused_parameters", &Fields::find_unused_parameters,
            "allow parameters without a gradient in a step"),
      field("broadcast_buffers", &Fields::broadcast_buffers,
            "send rank 0's buffers to all ranks after each step"),
      field("gradient_as_bucket_view", &Fields::gradient_as_bucket_view,
            "gradients are views of the buckets: no copy"),
      field("static_graph", &Fields::static_graph,
            "every step uses the same parameters; some may be unused"),
      field("comm_dtype", &Fields::comm_dtype, {"", "fp16", "bf16"},
            "send f32 gradients in this dtype; sums are f32"),
      field("join", &Fields::join, "ranks share the data unevenly, and each sample counts once")};
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
