#include "plugins/torch_ddp.h"

#include "core/autograd/tape.h"
#include "parallel/launch.h"

#include <algorithm>

namespace booster {

namespace {

constexpr double mib = 1024 * 1024;
constexpr double first_bucket_mib = 1;  // small, so that the first message leaves early
constexpr size_t names_shown = 5;

// The numbers that the ranks start from: parameters and buffers, what the optimizers hold besides,
// and masters that exist already.
std::vector<Tensor> shared_numbers(const Model& model, const Optimizers& optimizers) {
  std::vector<Tensor> all;
  std::unordered_set<const TensorBody*> known;
  const auto add = [&](const std::vector<NamedTensor>& tensors) {
    for (const auto& [name, tensor] : tensors)
      if (known.insert(tensor.body()).second) all.push_back(tensor);
  };
  add(model.state_dict());
  for (const Optimizer& optimizer : optimizers) add(optimizer.parameters());
  return all;
}

void share_masters(const Optimizers& optimizers, const Group& group) {
  for (Optimizer optimizer : optimizers)
    for (const auto& [name, parameter] : optimizer.parameters()) {
      const Tensor master = optimizer.master(name);
      if (!master.defined()) continue;
      group.broadcast(master);
      optimizer.set_master(name, master);
    }
}

}  // namespace

TorchDDPPlugin::TorchDDPPlugin(TorchDDPOptions options)
    : TorchDDPPlugin(options, launch_from_env().group()) {}

TorchDDPPlugin::TorchDDPPlugin(TorchDDPOptions options, Group group)
    : options_(options), mesh_(group, {{"data", group.size()}}), group_(std::move(group)) {
  check(options.bucket_cap_mb > 0, "torch_ddp: bucket_cap_mb must be > 0; got {}",
        options.bucket_cap_mb);
}

// A plugin that was not prepared yet is a description, and can be copied.
TorchDDPPlugin::TorchDDPPlugin(const TorchDDPPlugin& other)
    : TorchDDPPlugin(other.options_, other.group_) {
  check(other.watched_.empty(), "torch_ddp: already serves a model; want a new plugin object");
}

TorchDDPPlugin::~TorchDDPPlugin() {
  for (const auto& [parameter, hook] : watched_) remove_grad_ready_hook(parameter.tensor, hook);
}

void TorchDDPPlugin::shard(const Model& model, const Optimizers& optimizers) {
  const NoGradGuard no_grad;
  for (const Tensor& tensor : shared_numbers(model, optimizers)) group_.broadcast(tensor);
  share_masters(optimizers, group_);
}

void TorchDDPPlugin::prepare(const Model& model, const Optimizers& optimizers) {
  model_ = model;
  optimizers_ = optimizers;
  watch_new();
  check(!watched_.empty(), "torch_ddp: the model has no parameter that requires a gradient");
}

// Parameters may be thawed, and groups added to an optimizer, after the model was boosted.
void TorchDDPPlugin::watch_new() {
  Parameters added;
  const auto consider = [&](const Parameters& parameters) {
    for (const NamedTensor& parameter : parameters)
      if (parameter.tensor.requires_grad() && known_.insert(parameter.tensor.body()).second)
        added.push_back(parameter);
  };
  consider(model_.parameters());
  for (const Optimizer& optimizer : optimizers_) consider(optimizer.parameters());
  if (added.empty()) return;
  const int64_t cap = static_cast<int64_t>(options_.bucket_cap_mb * mib);
  buckets_.add(added, cap, std::min(cap, static_cast<int64_t>(first_bucket_mib * mib)));
  for (const NamedTensor& parameter : added) {
    const auto i = static_cast<int64_t>(watched_.size());
    if (options_.gradient_as_bucket_view) set_grad_buffer(parameter.tensor, buckets_.window(i));
    watched_.push_back(
        {parameter, on_grad_ready(parameter.tensor, [this, i](const Tensor&) { on_ready(i); })});
  }
}

void TorchDDPPlugin::on_ready(int64_t i) {
  if (exchanges_) buckets_.mark_ready(i, group_);
  else buckets_.mark_local(i);
}

DataLoader TorchDDPPlugin::prepare_dataloader(std::shared_ptr<const Dataset> dataset,
                                              DataLoaderOptions options) const {
  options.rank = group_.rank();
  options.world_size = group_.size();
  return DataLoader(std::move(dataset), std::move(options));
}

void TorchDDPPlugin::share_buffers() const {
  const NoGradGuard no_grad;
  for (const auto& buffer : model_.buffers()) group_.broadcast(buffer.tensor);
}

void TorchDDPPlugin::begin(Pass pass, bool sync) {
  if (pass == Pass::forward) {
    const bool training = model_.module().training();
    if (options_.broadcast_buffers && sync && group_.size() > 1 && training) share_buffers();
    return;
  }
  watch_new();
  exchanges_ = sync;
  if (sync) buckets_.begin();
}

void TorchDDPPlugin::end(Pass pass) {
  if (pass == Pass::forward || !std::exchange(exchanges_, false)) return;
  const NoGradGuard no_grad;
  buckets_.finish(group_, options_.find_unused_parameters);
  if (options_.find_unused_parameters) adopt_gradients_of_others();
}

// A gradient that is absent here counted as 0; where another rank had one it is this rank's too.
void TorchDDPPlugin::adopt_gradients_of_others() {
  std::vector<uint8_t> used;
  for (const auto& [parameter, hook] : watched_) used.push_back(parameter.tensor.grad().defined());
  group_.all_reduce(used, CollectiveOp::max);
  for (size_t i = 0; i < used.size(); ++i) {
    const Tensor& parameter = watched_[i].parameter.tensor;
    if (used[i] && !parameter.grad().defined())
      parameter.set_grad(buckets_.window(static_cast<int64_t>(i)));
  }
}

void TorchDDPPlugin::sync_grads(const Optimizer& optimizer) {
  const NoGradGuard no_grad;
  if (options_.find_unused_parameters) {
    std::vector<uint8_t> local = {buckets_.any_local()};  // not the same on all ranks
    group_.all_reduce(local, CollectiveOp::max);
    if (!local[0]) return;
    buckets_.exchange_local(group_, true);
    return adopt_gradients_of_others();
  }
  check_none_missing(optimizer);
  buckets_.exchange_local(group_, false);
}

void TorchDDPPlugin::check_none_missing(const Optimizer& optimizer) const {
  std::string names;
  size_t missing = 0, asked = 0;
  for (const auto& [name, parameter] : optimizer.parameters()) {
    if (!parameter.requires_grad()) continue;
    ++asked;
    if (parameter.grad().defined()) continue;
    if (missing++ < names_shown) names += (names.empty() ? "" : ", ") + name;
  }
  if (missing == asked) return;  // no backward pass since its gradients were forgotten
  if (missing > names_shown) names += ", ...";
  check(missing == 0,
        "torch_ddp: {} of {} parameters got no gradient in this step: {}; want every parameter to "
        "take part in the loss, or find_unused_parameters = true",
        missing, asked, names);
}

void TorchDDPPlugin::agree(Tensor& numbers, Among) {
  if (group_.size() > 1) group_.all_reduce(numbers, CollectiveOp::max);
}

}  // namespace booster
