#include "plugins/sharded_state.h"

#include "core/autograd/tape.h"
#include "core/tensor/absence.h"
#include "plugins/gradients/rank_norms.h"

#include <fmt/format.h>

#include <cstdio>
#include <map>
#include <utility>

namespace booster {

namespace {

constexpr double mega = 1024 * 1024;

// Those who share one copy: neighbours. `rank` counts in the group.
Group neighbours(const Group& all, int size) {
  if (size == 0 || size == all.size()) return all;
  if (size < 0 || all.size() % size != 0) {
    std::string fitting;
    for (int fits = 1; fits <= all.size(); ++fits)
      if (all.size() % fits == 0) fitting += (fits > 1 ? ", " : "") + std::to_string(fits);
    fail("fsdp: shard_size must divide the ranks; got {} for {} ranks, want {}", size, all.size(),
         fitting);
  }
  std::vector<int> ranks;
  for (int i = 0; i < size; ++i) ranks.push_back(all.rank() / size * size + i);
  return all.subgroup(ranks);
}

// Those who have the same part.
Group replicas(const Group& all, int size) {
  if (size == 0 || size == all.size()) return Group();
  std::vector<int> ranks;
  for (int rank = all.rank() % size; rank < all.size(); rank += size) ranks.push_back(rank);
  return all.subgroup(ranks);
}

}  // namespace

int64_t message_elements(const char* option, double size_in_m) {
  check(size_in_m > 0, "{} must be > 0; got {}", option, size_in_m);
  return static_cast<int64_t>(size_in_m * mega);
}

ShardedStatePlugin::ShardedStatePlugin(Mesh mesh, const Options& options)
    : DataParallelPlugin(std::move(mesh), true), options_(options),
      shards_(neighbours(ranks(), options.shard_size)),
      gradients_(shards_, replicas(ranks(), options.shard_size), options.gradients) {}

ShardedStatePlugin::ShardedStatePlugin(const ShardedStatePlugin& other)
    : DataParallelPlugin(other), options_(other.options_), shards_(other.shards_),
      gradients_(other.gradients_) {}

ShardedStatePlugin::~ShardedStatePlugin() {
  for (const auto& [parameter, hook] : watched_) remove_grad_ready_hook(parameter, hook);
}

// State is where the parameters are; there is no other place for it yet.
void ShardedStatePlugin::consider_offload(const Optimizers& optimizers) {
  if (!options_.cpu_offload) return;
  for (const Optimizer& optimizer : optimizers)
    check(optimizer.device().type == DeviceType::cpu,
          "{}: cpu_offload needs training on the CPU so far; got a GPU, want cpu_offload = false",
          name());
  add_note(fmt::format("{}: cpu_offload has no effect: training is on the CPU", name()));
}

void ShardedStatePlugin::shard(const Model& model, const Optimizers& optimizers) {
  consider_offload(optimizers);
  DataParallelPlugin::shard(model, optimizers);
  for (const Optimizer& optimizer : optimizers) {
    by_optimizer_.push_back(std::make_shared<std::vector<Tensor>>());
    Optimizer(optimizer).share_norms(share_over_ranks(by_optimizer_.back(), shards_));
    own_new(optimizer, *by_optimizer_.back());
  }
}

void ShardedStatePlugin::own_new(Optimizer optimizer, std::vector<Tensor>& known) {
  const Parameters all = optimizer.parameters();
  if (all.size() == known.size()) return;
  for (size_t i = known.size(); i < all.size(); ++i) {  // groups are added behind
    const auto& [name, tensor] = all[i];
    optimizer.own(name, RankParts{tensor.numel(), shards_.size()}.of(shards_.rank()));
    known.push_back(tensor);
  }
}

void ShardedStatePlugin::prepare(const Model& model, const Optimizers& optimizers) {
  DataParallelPlugin::prepare(model, optimizers);
  watch_new();
  const auto watched = static_cast<int64_t>(watched_.size());
  check(over_stages({watched})[0] > 0,
        "{}: the model has no parameter that requires a gradient", name());
}

void ShardedStatePlugin::watch_new() {
  for (size_t i = 0; i < optimizers().size(); ++i) own_new(optimizers()[i], *by_optimizer_[i]);
  const Parameters added = new_parameters();
  if (added.empty()) return;
  for (const Parameters& group : message_groups(added)) watch(group);
}

void ShardedStatePlugin::watch(const Parameters& parameters) {
  gradients_.add(parameters);
  for (const NamedTensor& parameter : parameters) {
    const auto i = static_cast<int64_t>(watched_.size());
    const auto ready = [this, i](const Tensor&) { gradients_.mark_ready(i); };
    watched_.push_back({parameter.tensor, on_grad_ready(parameter.tensor, ready)});
  }
}

void ShardedStatePlugin::begin(Pass pass, bool sync) {
  finish_gathering();
  DataParallelPlugin::begin(pass, sync);
  if (pass == Pass::forward) return;
  watch_new();
  gradients_.begin(sync);
}

void ShardedStatePlugin::end(Pass pass) {
  const NoGradGuard no_grad;
  if (pass == Pass::backward) gradients_.end();
}

void ShardedStatePlugin::sync_grads(const Optimizer& optimizer) {
  const NoGradGuard no_grad;
  check_none_missing(optimizer,
                     "every parameter to take part in the loss, or torch_ddp with "
                     "find_unused_parameters = true");
  gradients_.exchange_local();
}

void ShardedStatePlugin::sync_params(const Optimizer& optimizer) {
  const NoGradGuard no_grad;
  finish_gathering();
  std::map<DType, std::pair<std::vector<Tensor>, int64_t>> open;
  const auto send = [&](std::pair<std::vector<Tensor>, int64_t>& message) {
    if (!message.first.empty()) gather(optimizer, std::exchange(message, {}).first);
  };
  for (const auto& [name, tensor] : optimizer.parameters()) {
    if (kept_part(tensor).defined() || tensor.numel() == 0) continue;
    // One that was frozen behind its backward pass is still stepped.
    if (!tensor.requires_grad() && !tensor.grad().defined()) continue;
    auto& message = open[tensor.dtype()];
    message.first.push_back(tensor);
    message.second += tensor.numel();
    if (message.second >= options_.gradients.bucket_elements) send(message);
  }
  for (auto& [dtype, message] : open) send(message);
  if (!options_.gathers_late || holds_whole()) finish_gathering();
}

void ShardedStatePlugin::hold_whole(bool whole) {
  holds_ += whole ? 1 : -1;
  finish_gathering();
}

void ShardedStatePlugin::gather(const Optimizer& optimizer, std::vector<Tensor> parameters) {
  PackedParts packed(shards_.size());
  for (const Tensor& parameter : parameters) packed.add(parameter.numel());
  const TensorOptions options = {parameters[0].dtype(), parameters[0].device()};
  const Tensor own = zeros({packed.part()}, options), all = empty({packed.elements()}, options);
  const int rank = shards_.rank();
  for (size_t i = 0; i < parameters.size(); ++i)
    packed.own_place(own, i, rank)
        .copy_(flat_window(parameters[i], packed.parts(i).of(rank)));
  const Work work = shards_.all_gather_async(all, own);
  gathering_.push_back({optimizer, std::move(parameters), std::move(packed), all, work});
}

void ShardedStatePlugin::finish_gathering() {
  if (gathering_.empty()) return;
  const NoGradGuard no_grad;
  for (Gathering& one : std::exchange(gathering_, {})) {
    one.work.wait();
    for (size_t i = 0; i < one.parameters.size(); ++i)
      one.packed.unpack(one.all, i, one.parameters[i]);
    one.optimizer.settle_masters();  // what came from other ranks is what their masters stand for
  }
}

Tensor ShardedStatePlugin::kept_for(const NamedTensor& held) const {
  if (!is_floating(held.tensor.dtype())) return {};  // a count is whole
  for (const Optimizer& optimizer : optimizers())
    for (const auto& [name, parameter] : optimizer.parameters())
      if (held.name != name && lies_in(held.name, name)) return parameter;
  return {};
}

void ShardedStatePlugin::join(StateDict& state) const {
  const_cast<ShardedStatePlugin*>(this)->finish_gathering();
  for (NamedTensor& held : state)
    if (const Tensor part = kept_part(held.tensor); part.defined())
      held.tensor = joined_on_first(part, held.tensor.shape(), shards_);
    else if (const Tensor parameter = kept_for(held); parameter.defined())
      held.tensor = joined_on_first(held.tensor, parameter.shape(), shards_);
}

void ShardedStatePlugin::split(StateDict& state) const {
  for (NamedTensor& held : state)
    if (const Tensor parameter = kept_for(held); parameter.defined()) {
      check(held.tensor.numel() == parameter.numel(), "{}: {} does not fit; got shape {}, want {}",
            name(), held.name, held.tensor.shape(), parameter.shape());
      held.tensor = part_of(held.tensor, shards_);
    }
}

}  // namespace booster
