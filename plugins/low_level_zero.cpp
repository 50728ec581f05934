#include "plugins/low_level_zero.h"

#include "core/autograd/tape.h"
#include "parallel/launch.h"
#include "plugins/rank_norms.h"

#include <cstdio>
#include <map>
#include <utility>

namespace booster {

namespace {

constexpr double mega = 1024 * 1024;

int64_t bucket_elements(const LowLevelZeroOptions& options) {
  return static_cast<int64_t>(options.reduce_bucket_size_in_m * mega);
}

const LowLevelZeroOptions& checked(const LowLevelZeroOptions& options) {
  check(options.stage == 1 || options.stage == 2,
        "low_level_zero: unknown stage; got {}, want 1 (optimizer state) or 2 (and gradients)",
        options.stage);
  check(options.reduce_bucket_size_in_m > 0,
        "low_level_zero: reduce_bucket_size_in_m must be > 0; got {}",
        options.reduce_bucket_size_in_m);
  return options;
}

}  // namespace

LowLevelZeroPlugin::LowLevelZeroPlugin(LowLevelZeroOptions options)
    : LowLevelZeroPlugin(options, launch_from_env().group()) {}

LowLevelZeroPlugin::LowLevelZeroPlugin(LowLevelZeroOptions options, Group group)
    : DataParallelPlugin(std::move(group), true), options_(checked(options)),
      gradients_(ranks(), {.bucket_elements = bucket_elements(options),
                           .overlap = options.overlap_communication,
                           .free_whole = options.stage == 2}) {}

LowLevelZeroPlugin::LowLevelZeroPlugin(const LowLevelZeroPlugin& other)
    : DataParallelPlugin(other), options_(other.options_), gradients_(other.gradients_) {}

LowLevelZeroPlugin::~LowLevelZeroPlugin() {
  for (const auto& [parameter, hook] : watched_) remove_grad_ready_hook(parameter, hook);
}

Layout LowLevelZeroPlugin::layout() const {
  Layout layout = mesh().layout();
  layout.zero_stage = static_cast<int>(options_.stage);
  return layout;
}

// State is where the parameters are; there is no other place for it yet.
void LowLevelZeroPlugin::consider_offload(const Optimizers& optimizers) const {
  if (!options_.cpu_offload) return;
  for (const Optimizer& optimizer : optimizers)
    check(optimizer.device().type == DeviceType::cpu,
          "low_level_zero: cpu_offload needs training on the CPU so far; got a GPU, want "
          "cpu_offload = false");
  if (ranks().rank() == 0)
    std::fputs("low_level_zero: cpu_offload has no effect: training is on the CPU\n", stderr);
}

void LowLevelZeroPlugin::shard(const Model& model, const Optimizers& optimizers) {
  consider_offload(optimizers);
  DataParallelPlugin::shard(model, optimizers);
  for (const Optimizer& optimizer : optimizers) {
    by_optimizer_.push_back(std::make_shared<std::vector<Tensor>>());
    Optimizer(optimizer).share_norms(share_over_ranks(by_optimizer_.back(), ranks()));
    own_new(optimizer, *by_optimizer_.back());
  }
}

void LowLevelZeroPlugin::own_new(Optimizer optimizer, std::vector<Tensor>& known) {
  const Parameters all = optimizer.parameters();
  if (all.size() == known.size()) return;
  for (size_t i = known.size(); i < all.size(); ++i) {  // groups are added behind
    const auto& [name, tensor] = all[i];
    optimizer.own(name, RankParts{tensor.numel(), ranks().size()}.of(ranks().rank()));
    known.push_back(tensor);
  }
}

void LowLevelZeroPlugin::prepare(const Model& model, const Optimizers& optimizers) {
  DataParallelPlugin::prepare(model, optimizers);
  watch_new();
  check(!watched_.empty(), "low_level_zero: the model has no parameter that requires a gradient");
}

void LowLevelZeroPlugin::watch_new() {
  for (size_t i = 0; i < optimizers().size(); ++i) own_new(optimizers()[i], *by_optimizer_[i]);
  const Parameters added = new_parameters();
  if (added.empty()) return;
  gradients_.add(added);
  for (const NamedTensor& parameter : added) {
    const auto i = static_cast<int64_t>(watched_.size());
    const auto ready = [this, i](const Tensor&) { gradients_.mark_ready(i); };
    watched_.push_back({parameter.tensor, on_grad_ready(parameter.tensor, ready)});
  }
}

void LowLevelZeroPlugin::begin(Pass pass, bool sync) {
  finish_gathering();
  DataParallelPlugin::begin(pass, sync);
  if (pass == Pass::forward) return;
  watch_new();
  gradients_.begin(sync);
}

void LowLevelZeroPlugin::end(Pass pass) {
  const NoGradGuard no_grad;
  if (pass == Pass::backward) gradients_.end();
}

void LowLevelZeroPlugin::sync_grads(const Optimizer& optimizer) {
  const NoGradGuard no_grad;
  check_none_missing(optimizer,
                     "every parameter to take part in the loss, or torch_ddp with "
                     "find_unused_parameters = true");
  gradients_.exchange_local();
}

void LowLevelZeroPlugin::sync_params(const Optimizer& optimizer) {
  const NoGradGuard no_grad;
  finish_gathering();
  std::map<DType, std::pair<std::vector<Tensor>, int64_t>> open;
  const auto send = [&](std::pair<std::vector<Tensor>, int64_t>& message) {
    if (!message.first.empty()) gather(optimizer, std::exchange(message, {}).first);
  };
  for (const auto& [name, tensor] : optimizer.parameters()) {
    // One that was frozen behind its backward pass is still stepped.
    if (!tensor.requires_grad() && !tensor.grad().defined()) continue;
    auto& message = open[tensor.dtype()];
    message.first.push_back(tensor);
    message.second += tensor.numel();
    if (message.second >= bucket_elements(options_)) send(message);
  }
  for (auto& [dtype, message] : open) send(message);
  if (!options_.overlap_allgather) finish_gathering();
}

void LowLevelZeroPlugin::gather(const Optimizer& optimizer, std::vector<Tensor> parameters) {
  PackedParts packed(ranks().size());
  for (const Tensor& parameter : parameters) packed.add(parameter.numel());
  const TensorOptions options = {parameters[0].dtype(), parameters[0].device()};
  const Tensor own = zeros({packed.part()}, options), all = empty({packed.elements()}, options);
  const int rank = ranks().rank();
  for (size_t i = 0; i < parameters.size(); ++i)
    packed.own_place(own, i, rank)
        .copy_(flat_window(parameters[i], packed.parts(i).of(rank)));
  const Work work = ranks().all_gather_async(all, own);
  gathering_.push_back({optimizer, std::move(parameters), std::move(packed), all, work});
}

void LowLevelZeroPlugin::finish_gathering() {
  if (gathering_.empty()) return;
  const NoGradGuard no_grad;
  for (Gathering& one : std::exchange(gathering_, {})) {
    one.work.wait();
    for (size_t i = 0; i < one.parameters.size(); ++i)
      one.packed.unpack(one.all, i, one.parameters[i]);
    one.optimizer.settle_masters();  // what came from other ranks is what their masters stand for
  }
}

Tensor LowLevelZeroPlugin::kept_for(const NamedTensor& held) const {
  if (!is_floating(held.tensor.dtype())) return {};  // a count is whole
  for (const Optimizer& optimizer : optimizers())
    for (const auto& [name, parameter] : optimizer.parameters())
      if (held.name != name && lies_in(held.name, name)) return parameter;
  return {};
}

void LowLevelZeroPlugin::join(StateDict& state) const {
  const_cast<LowLevelZeroPlugin*>(this)->finish_gathering();
  for (NamedTensor& held : state)
    if (const Tensor parameter = kept_for(held); parameter.defined())
      held.tensor = joined_on_first(held.tensor, parameter.shape(), ranks());
}

void LowLevelZeroPlugin::split(StateDict& state) const {
  for (NamedTensor& held : state)
    if (const Tensor parameter = kept_for(held); parameter.defined()) {
      check(held.tensor.numel() == parameter.numel(),
            "low_level_zero: {} does not fit; got shape {}, want {}", held.name,
            held.tensor.shape(), parameter.shape());
      held.tensor = part_of(held.tensor, ranks());
    }
}

}  // namespace booster
