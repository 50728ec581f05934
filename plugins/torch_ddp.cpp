#include "plugins/torch_ddp.h"

#include "core/autograd/tape.h"
#include "parallel/launch.h"

#include <algorithm>

namespace booster {

namespace {
constexpr double mib = 1024 * 1024;
constexpr double first_bucket_mib = 1;  // small, so that the first message leaves early
constexpr size_t names_shown = 5;
}  // namespace

TorchDDPPlugin::TorchDDPPlugin(TorchDDPOptions options)
    : TorchDDPPlugin(options, launch_from_env().group()) {}

TorchDDPPlugin::TorchDDPPlugin(TorchDDPOptions options, Group group)
    : options_(options), group_(std::move(group)) {
  check(options.bucket_cap_mb > 0, "torch_ddp: bucket_cap_mb must be > 0; got {}",
        options.bucket_cap_mb);
}

// A plugin that was not prepared yet is a description, and can be copied.
TorchDDPPlugin::TorchDDPPlugin(const TorchDDPPlugin& other)
    : TorchDDPPlugin(other.options_, other.group_) {
  check(!other.buckets_, "torch_ddp: already serves a model; want a new plugin object");
}

TorchDDPPlugin::~TorchDDPPlugin() {
  for (size_t i = 0; i < hooks_.size(); ++i)
    remove_grad_ready_hook(parameters_[i].tensor, hooks_[i]);
}

Layout TorchDDPPlugin::layout() const { return {.data = group_.size()}; }

// Rank 0's numbers become everybody's: parameters, buffers and masters.
void TorchDDPPlugin::share_weights(const Optimizers& optimizers) {
  const NoGradGuard no_grad;
  for (const auto& [name, tensor] : model_.state_dict()) {
    group_.broadcast(tensor);
    tensor.bump_version();
  }
  for (Optimizer optimizer : optimizers)
    for (const auto& [name, parameter] : optimizer.parameters()) {
      const Tensor master = optimizer.master(name);
      if (!master.defined()) continue;
      group_.broadcast(master);
      master.bump_version();
      optimizer.set_master(name, master);
    }
}

void TorchDDPPlugin::prepare(const Model& model, const Optimizers& optimizers) {
  model_ = model;
  share_weights(optimizers);
  for (const auto& parameter : model.parameters())
    if (parameter.tensor.requires_grad()) parameters_.push_back(parameter);
  check(!parameters_.empty(), "torch_ddp: the model has no parameter that requires a gradient");
  const int64_t cap = static_cast<int64_t>(options_.bucket_cap_mb * mib);
  const int64_t first_cap = std::min(cap, static_cast<int64_t>(first_bucket_mib * mib));
  buckets_.emplace(parameters_, cap, first_cap);
  for (size_t i = 0; i < parameters_.size(); ++i) watch(static_cast<int64_t>(i));
}

void TorchDDPPlugin::watch(int64_t i) {
  const Tensor& parameter = parameters_[i].tensor;
  if (options_.gradient_as_bucket_view) set_grad_buffer(parameter, buckets_->window(i));
  hooks_.push_back(on_grad_ready(parameter, [this, i](const Tensor&) { on_ready(i); }));
}

void TorchDDPPlugin::on_ready(int64_t i) {
  if (!sync_) return;
  if (!pass_open_) {
    pass_open_ = true;
    buckets_->reset();
  }
  if (!options_.gradient_as_bucket_view) buckets_->window(i).copy_(parameters_[i].tensor.grad());
  buckets_->mark_ready(i, group_);
}

DataLoader TorchDDPPlugin::prepare_dataloader(std::shared_ptr<const Dataset> dataset,
                                              DataLoaderOptions options) const {
  options.rank = group_.rank();
  options.world_size = group_.size();
  return DataLoader(std::move(dataset), std::move(options));
}

void TorchDDPPlugin::before_forward() {
  if (!options_.broadcast_buffers || !sync_ || group_.size() == 1 || !model_.module().training())
    return;
  const NoGradGuard no_grad;
  for (const auto& buffer : model_.buffers()) {
    group_.broadcast(buffer.tensor);
    buffer.tensor.bump_version();
  }
}

void TorchDDPPlugin::check_none_missing() const {
  std::string names;
  size_t missing = 0;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (buckets_->is_ready(static_cast<int64_t>(i))) continue;
    if (missing++ < names_shown) names += (names.empty() ? "" : ", ") + parameters_[i].name;
  }
  if (missing > names_shown) names += ", ...";
  check(missing == 0,
        "torch_ddp: {} of {} parameters got no gradient in this step: {}; want every parameter to "
        "take part in the loss, or find_unused_parameters = true",
        missing, parameters_.size(), names);
}

// Parameters without a gradient here count as zero. Where no rank had one the gradient stays
// absent.
void TorchDDPPlugin::finish_unused() {
  std::vector<uint8_t> used(parameters_.size());
  for (size_t i = 0; i < used.size(); ++i) used[i] = buckets_->is_ready(static_cast<int64_t>(i));
  const std::vector<uint8_t> here = used;
  for (size_t i = 0; i < used.size(); ++i) {
    if (here[i]) continue;
    buckets_->window(static_cast<int64_t>(i)).zero_();
    buckets_->mark_ready(static_cast<int64_t>(i), group_);
  }
  group_.all_reduce(used, CollectiveOp::max);
  buckets_->wait();
  for (size_t i = 0; i < used.size(); ++i)
    if (used[i] && !here[i])
      parameters_[i].tensor.set_grad(buckets_->window(static_cast<int64_t>(i)));
}

void TorchDDPPlugin::sync_grads() {
  if (!pass_open_) {
    if (!options_.find_unused_parameters) return;  // nothing was computed since the last step
    buckets_->reset();
  }
  pass_open_ = false;
  const NoGradGuard no_grad;
  if (options_.find_unused_parameters) {
    finish_unused();
  } else {
    check_none_missing();
    buckets_->wait();
  }
  if (options_.gradient_as_bucket_view) return;
  for (size_t i = 0; i < parameters_.size(); ++i)
    if (parameters_[i].tensor.grad().defined())
      parameters_[i].tensor.grad().copy_(buckets_->window(static_cast<int64_t>(i)));
}

void TorchDDPPlugin::agree(Tensor& numbers) {
  if (group_.size() > 1) group_.all_reduce(numbers, CollectiveOp::max);
}

}  // namespace booster
