#include "plugins/fsdp.h"

#include "parallel/mesh.h"

#include <limits>
#include <utility>

namespace booster {

namespace {

// Ranks of one copy of the model. Hybrid sharding keeps gathers inside a machine.
int shard_size_of(const FsdpOptions& options) {
  check(options.sharding == "full" || options.sharding == "hybrid",
        "fsdp: unknown sharding; got {}, want full or hybrid", options.sharding);
  check(options.shard_size >= 0, "fsdp: shard_size must be >= 0; got {}", options.shard_size);
  check(options.shard_size == 0 || options.sharding == "hybrid",
        "fsdp: shard_size has no effect with full sharding; got {}, want sharding = hybrid",
        options.shard_size);
  if (options.sharding == "full") return 0;
  return options.shard_size > 0 ? static_cast<int>(options.shard_size)
                                : launch_from_env().local_size;
}

}  // namespace

FsdpPlugin::FsdpPlugin(FsdpOptions options)
    : FsdpPlugin(std::move(options), launch_from_env().group()) {}

FsdpPlugin::FsdpPlugin(FsdpOptions options, Mesh mesh)
    : ShardedStatePlugin(std::move(mesh),
                         {.gradients = {.bucket_elements = std::numeric_limits<int64_t>::max(),
                                        .free_whole = true},
                          .shard_size = shard_size_of(options),
                          .cpu_offload = options.cpu_offload}),
      options_(std::move(options)) {
  check(options_.prefetch >= 0, "fsdp: prefetch must be >= 0; got {}", options_.prefetch);
}

FsdpPlugin::FsdpPlugin(const FsdpPlugin& other)
    : ShardedStatePlugin(other), options_(other.options_) {}

FsdpPlugin::~FsdpPlugin() = default;

Layout FsdpPlugin::layout() const {
  Layout layout = mesh().layout();
  layout.zero_stage = 3;
  return layout;
}

void FsdpPlugin::shard(const Model& model, const Optimizers& optimizers) {
  number_training();
  units_ = std::make_unique<ParameterUnits>(model, ranks(), shards(),
                                            ParameterUnitOptions{.wrap = options_.wrap,
                                                                 .prefetch = options_.prefetch,
                                                                 .recompute = options_.recompute,
                                                                 .on_host = options_.cpu_offload,
                                                                 .training = training()});
  ShardedStatePlugin::shard(model, optimizers);
}

// A message is a unit: its whole gradients are sent when the last one is complete.
std::vector<Parameters> FsdpPlugin::message_groups(const Parameters& parameters) const {
  return units_->by_unit(parameters);
}

void FsdpPlugin::begin(Pass pass, bool sync) {
  ShardedStatePlugin::begin(pass, sync);
  units_->begin(pass);
}

void FsdpPlugin::end(Pass pass) {
  units_->end(pass, holds_whole());
  ShardedStatePlugin::end(pass);
}

// Steps change only the parts.
void FsdpPlugin::sync_grads(const Optimizer& optimizer) {
  units_->keep_writes();
  ShardedStatePlugin::sync_grads(optimizer);
}

void FsdpPlugin::sync_params(const Optimizer& optimizer) {
  ShardedStatePlugin::sync_params(optimizer);
  units_->drop_all();  // the step made them stale
  if (holds_whole()) units_->gather_all();
}

void FsdpPlugin::hold_whole(bool whole) {
  ShardedStatePlugin::hold_whole(whole);
  if (holds_whole()) units_->gather_all();
  else units_->release_all();
}

}  // namespace booster
