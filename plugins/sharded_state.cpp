#include "plugins/sharded_state.h"

#include "core/autograd/tape.h"
#include "core/tensor/absence.h"
#include "parallel/operations/operation_tag.h"
#include "platform/trace.h"
#include "plugins/gradients/rank_norms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <numeric>
#include <utility>

namespace booster {

namespace {

constexpr double mega = 1024 * 1024;

// Returns the neighbours that share one copy. `rank` counts within the group.
Group neighbours(const Group& all, int size) {
  if (size == 0 || size == all.size()) return all;
  if (size < 0 || all.size() % size != 0) {
    std::string fitting;
    for (int fits = 1; fits <= all.size(); ++fits)
      if (all.size() % fits == 0) fitting += (fits > 1 ? ", " : "") + std::to_string(fits);
    fail("fsdp: shard_size must divide the number of ranks; got {} for {} ranks, want {}", size,
         all.size(), fitting);
  }
  std::vector<int> ranks;
  for (int i = 0; i < size; ++i) ranks.push_back(all.rank() / size * size + i);
  return all.subgroup(ranks);
}

// Returns the same ranks with a communication thread of their own.
Group on_own_thread(const Group& group) {
  std::vector<int> ranks(static_cast<size_t>(group.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return group.subgroup(ranks);
}

// Returns the ranks that have the same part.
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
    : DataParallelPlugin(std::move(mesh), true),
      options_(options),
      shards_(neighbours(ranks(), options.shard_size)),
      gathers_(options.gathers_late ? on_own_thread(shards_) : shards_),
      gradients_(shards_, replicas(ranks(), options.shard_size), options.gradients) {}

ShardedStatePlugin::ShardedStatePlugin(const ShardedStatePlugin& other)
    : DataParallelPlugin(other),
      options_(other.options_),
      shards_(other.shards_),
      gathers_(other.gathers_),
      gradients_(other.gradients_) {
  zero_stage_ = other.zero_stage_;
}

ShardedStatePlugin::~ShardedStatePlugin() {
  for (const auto& [parameter, hook] : watched_) remove_grad_ready_hook(parameter, hook);
  // Other ranks may still need this rank's messages, and this rank theirs.
  for (const Work& work : on_their_way_) {
    try {
      work.synchronize();
    } catch (const Error&) {  // use of the parameters throws it
    }
  }
}

void ShardedStatePlugin::offload(const Optimizers& optimizers) {
  if (!options_.cpu_offload) return;
  const auto is_on_host = [](const Optimizer& optimizer) { return optimizer.device() == Device{}; };
  if (std::ranges::all_of(optimizers, is_on_host))
    add_note(fmt::format("{}: cpu_offload has no effect: training is on the CPU", name()));
  for (Optimizer optimizer : optimizers) optimizer.keep_state_on(Device{});
}

void ShardedStatePlugin::shard(const Model& model, const Optimizers& optimizers) {
  DataParallelPlugin::shard(model, optimizers);
  for (const Optimizer& optimizer : optimizers) own(optimizer);
  offload(optimizers);
}

void ShardedStatePlugin::own(Optimizer optimizer) {
  const auto owned = std::make_shared<std::vector<Tensor>>();
  const auto own = [shards = shards_, owned](Optimizer& owner, const Parameters& parameters) {
    for (const auto& [name, tensor] : parameters) {
      owner.own(name, RankParts{tensor.numel(), shards.size()}.of(shards.rank()));
      owned->push_back(tensor);
    }
  };
  own(optimizer, optimizer.parameters());
  optimizer.on_new_group(own);
  optimizer.share_norms(share_over_ranks(owned, shards_));
}

void ShardedStatePlugin::prepare(const Model& model, const Optimizers& optimizers) {
  DataParallelPlugin::prepare(model, optimizers);
  gradients_.serve(training());
  watch_new();
  const auto watched = static_cast<int64_t>(watched_.size());
  check(over_stages({watched})[0] > 0, "{}: the model has no parameter that requires a gradient",
        name());
}

void ShardedStatePlugin::watch_new() {
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

PassScope ShardedStatePlugin::begin(const PassStart& start) {
  if (start.pass == Pass::forward) return {};
  watch_new();
  gradients_.begin(start.sync);
  return {{.end = [this] {
    const NoGradGuard no_grad;
    gradients_.end();
  }}};
}

void ShardedStatePlugin::sync_grads(const Optimizer& optimizer) {
  const NoGradGuard no_grad;
  check_none_missing(optimizer, "torch_ddp with find_unused_parameters = true");
  gradients_.exchange_local();
}

void ShardedStatePlugin::sync_params(const Optimizers& stepped) {
  DataParallelPlugin::sync_params(stepped);
  for (const Optimizer& optimizer : stepped) gather_params(optimizer);
}

void ShardedStatePlugin::gather_params(const Optimizer& optimizer) {
  const NoGradGuard no_grad;
  const bool late = options_.gathers_late && !holds_whole();
  const auto place = std::ranges::find(optimizers(), optimizer) - optimizers().begin();
  const OperationTag tag = OperationTag::of(OperationTag::optimizer, place, training());
  std::vector<std::pair<std::shared_ptr<const Gathering>, std::vector<Tensor>>> sent;
  for (std::vector<Tensor>& parameters : messages(optimizer)) {
    auto gathering = gather(parameters, tag);
    sent.emplace_back(std::move(gathering), std::move(parameters));
  }
  std::erase_if(on_their_way_, [](const Work& work) { return work.is_done(); });
  for (const auto& [gathering, parameters] : sent) {
    receive(gathering, parameters, late);
    if (late) on_their_way_.push_back(gathering->work);
  }
}

std::vector<std::vector<Tensor>> ShardedStatePlugin::messages(const Optimizer& optimizer) const {
  std::vector<std::vector<Tensor>> complete;
  std::map<DType, std::pair<std::vector<Tensor>, int64_t>> open;
  for (const auto& [name, tensor] : optimizer.parameters()) {
    if (kept_part(tensor).defined() || tensor.numel() == 0) continue;
    // A parameter that was frozen after its backward pass is still stepped.
    if (!tensor.requires_grad() && !tensor.grad().defined()) continue;
    auto& [message, elements] = open[tensor.dtype()];
    message.push_back(tensor);
    elements += tensor.numel();
    if (elements < options_.gradients.bucket_elements) continue;
    complete.push_back(std::exchange(message, {}));
    elements = 0;
  }
  for (auto& [dtype, message] : open)
    if (!message.first.empty()) complete.push_back(std::move(message.first));
  return complete;
}

std::shared_ptr<const ShardedStatePlugin::Gathering> ShardedStatePlugin::gather(
    const std::vector<Tensor>& parameters, OperationTag tag) const {
  PackedParts packed(shards_.size());
  for (const Tensor& parameter : parameters) packed.add(parameter.numel());
  const TensorOptions options = {parameters[0].dtype(), parameters[0].device()};
  const Tensor own = zeros({packed.part()}, options), all = empty({packed.elements()}, options);
  const int rank = shards_.rank();
  for (size_t i = 0; i < parameters.size(); ++i)
    packed.own_place(own, i, rank).copy_(flat_window(parameters[i], packed.parts(i).of(rank)));
  const Work work = gathers_.all_gather_async(all, own, tag);
  return std::make_shared<Gathering>(Gathering{std::move(packed), all, work, gathers_});
}

// Receives the gathered parameters. A window on shared memory cannot arrive late, since the
// memory's other tensors would be lost with it.
void ShardedStatePlugin::receive(const std::shared_ptr<const Gathering>& gathering,
                                 const std::vector<Tensor>& parameters, bool late) {
  for (size_t i = 0; i < parameters.size(); ++i) {
    const auto write = [gathering, i](const Tensor& parameter) {
      const kernels::TraceScope span("gather parameters", kernels::SpanKind::op);
      gathering->work.wait();
      gathering->packed.unpack(gathering->all, i, parameter);
    };
    if (late && fills_storage(parameters[i]))
      renew_on_use(parameters[i], write);
    else
      write(parameters[i]);
  }
}

Tensor ShardedStatePlugin::kept_for(const NamedTensor& held) const {
  if (!is_floating(held.tensor.dtype())) return {};  // a count is whole
  const auto found = [&](const Parameters& parameters) -> Tensor {
    for (const auto& [name, parameter] : parameters)
      if (held.name != name && lies_in(held.name, name)) return parameter;
    return {};
  };
  // States of several optimizers have the models' names.
  if (optimizers().size() > 1)
    if (const Tensor parameter = found(model().parameters()); parameter.defined()) return parameter;
  for (const Optimizer& optimizer : optimizers())
    if (const Tensor parameter = found(optimizer.parameters()); parameter.defined())
      return parameter;
  return {};
}

void ShardedStatePlugin::join(StateDict& state) const {
  for (NamedTensor& held : state)
    if (const Tensor part = kept_part(held.tensor); part.defined())
      held.tensor = joined_on_first(part, held.tensor.shape(), shards_);
    else if (const Tensor parameter = kept_for(held); parameter.defined())
      held.tensor = joined_on_first(held.tensor, parameter.shape(), shards_);
}

void ShardedStatePlugin::split(StateDict& state) const {
  for (NamedTensor& held : state)
    if (const Tensor parameter = kept_for(held); parameter.defined()) {
      check(held.tensor.numel() == parameter.numel(), "{}: {} has the wrong shape; got {}, want {}",
            name(), held.name, held.tensor.shape(), parameter.shape());
      held.tensor = part_of(held.tensor, shards_);
    }
}

}  // namespace booster
