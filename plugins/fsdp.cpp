#include "plugins/fsdp.h"

#include "parallel/mesh.h"
#include "platform/copies.h"

#include <limits>
#include <utility>

namespace booster {

namespace {

// Returns the ranks of one copy of the model. Hybrid sharding keeps gathers inside a machine.
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

Fsdp::Fsdp(FsdpOptions options) : Fsdp(std::move(options), launch_from_env().group()) {}

Fsdp::Fsdp(FsdpOptions options, Mesh mesh)
    : ShardedStatePlugin(std::move(mesh),
                         {.gradients = {.bucket_elements = std::numeric_limits<int64_t>::max(),
                                        .free_whole = true},
                          .shard_size = shard_size_of(options),
                          .cpu_offload = options.cpu_offload}),
      options_(std::move(options)) {
  zero_stage_ = 3;
  check(options_.prefetch >= 0, "fsdp: prefetch must be >= 0; got {}", options_.prefetch);
}

Fsdp::Fsdp(const Fsdp& other) : ShardedStatePlugin(other), options_(other.options_) {}

Fsdp::~Fsdp() = default;

void Fsdp::shard(const Model& model, const Optimizers& optimizers) {
  number_training();
  units_ = std::make_unique<ParameterUnits>(model, ranks(), shards(),
                                            ParameterUnitOptions{.wrap = options_.wrap,
                                                                 .prefetch = options_.prefetch,
                                                                 .recompute = options_.recompute,
                                                                 .on_host = options_.cpu_offload,
                                                                 .training = training()});
  ShardedStatePlugin::shard(model, optimizers);
}

// Makes one message per unit, sent when its last whole gradient is complete.
std::vector<Parameters> Fsdp::message_groups(const Parameters& parameters) const {
  return units_->by_unit(parameters);
}

PassScope Fsdp::begin(const PassStart& start) {
  PassScope scope = ShardedStatePlugin::begin(start);
  scope.add({.end = [this, pass = start.pass] { units_->end(pass, holds_whole()); },
             .abandon = [this, pass = start.pass] { units_->abandon(pass, holds_whole()); }});
  units_->begin(start.pass);
  return scope;
}

// Keeps writes into whole parameters, since steps change only the parts.
void Fsdp::sync_grads(const Optimizer& optimizer) {
  units_->keep_writes();
  ShardedStatePlugin::sync_grads(optimizer);
}

void Fsdp::sync_params(const Optimizers& stepped) {
  ShardedStatePlugin::sync_params(stepped);
  if (stepped.empty()) return;
  units_->drop_all();  // the step made them stale
  if (holds_whole()) units_->gather_all();
}

void Fsdp::hold_whole(bool whole) {
  ShardedStatePlugin::hold_whole(whole);
  if (holds_whole())
    units_->gather_all();
  else
    units_->release_all();
}

PluginMaker FsdpPlugin(FsdpOptions options) { return copies_of<Plugin>(Fsdp(std::move(options))); }
PluginMaker FsdpPlugin(FsdpOptions options, Mesh mesh) {
  return copies_of<Plugin>(Fsdp(std::move(options), std::move(mesh)));
}

}  // namespace booster
