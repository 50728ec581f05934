#include "plugins/torch_ddp.h"

#include "core/autograd/tape.h"
#include "parallel/launch.h"

#include <algorithm>

namespace booster {

namespace {

constexpr double mib = 1024 * 1024;
constexpr double first_bucket_mib = 1;  // small, so that the first message leaves early

}  // namespace

TorchDDPPlugin::TorchDDPPlugin(TorchDDPOptions options)
    : TorchDDPPlugin(options, launch_from_env().group()) {}

TorchDDPPlugin::TorchDDPPlugin(TorchDDPOptions options, Group group)
    : DataParallelPlugin(std::move(group), options.broadcast_buffers), options_(options) {
  check(options.bucket_cap_mb > 0, "torch_ddp: bucket_cap_mb must be > 0; got {}",
        options.bucket_cap_mb);
}

TorchDDPPlugin::TorchDDPPlugin(const TorchDDPPlugin& other)
    : DataParallelPlugin(other), options_(other.options_) {}

TorchDDPPlugin::~TorchDDPPlugin() {
  for (const auto& [parameter, hook] : watched_) remove_grad_ready_hook(parameter.tensor, hook);
}

void TorchDDPPlugin::prepare(const Model& model, const Optimizers& optimizers) {
  DataParallelPlugin::prepare(model, optimizers);
  watch_new();
  check(!watched_.empty(), "torch_ddp: the model has no parameter that requires a gradient");
}

void TorchDDPPlugin::watch_new() {
  const Parameters added = new_parameters();
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
  if (exchanges_) buckets_.mark_ready(i, ranks());
  else buckets_.mark_local(i);
}

void TorchDDPPlugin::begin(Pass pass, bool sync) {
  DataParallelPlugin::begin(pass, sync);
  if (pass == Pass::forward) return;
  watch_new();
  exchanges_ = sync;
  if (sync) buckets_.begin();
}

void TorchDDPPlugin::end(Pass pass) {
  if (pass == Pass::forward || !std::exchange(exchanges_, false)) return;
  const NoGradGuard no_grad;
  buckets_.finish(ranks(), options_.find_unused_parameters);
  if (options_.find_unused_parameters) adopt_gradients_of_others();
}

// A gradient that is absent here counted as 0; where another rank had one it is this rank's too.
void TorchDDPPlugin::adopt_gradients_of_others() {
  std::vector<uint8_t> used;
  for (const auto& [parameter, hook] : watched_) used.push_back(parameter.tensor.grad().defined());
  ranks().all_reduce(used, CollectiveOp::max);
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
    ranks().all_reduce(local, CollectiveOp::max);
    if (!local[0]) return;
    buckets_.exchange_local(ranks(), true);
    return adopt_gradients_of_others();
  }
  check_none_missing(
      optimizer, "every parameter to take part in the loss, or find_unused_parameters = true");
  buckets_.exchange_local(ranks(), false);
}

}  // namespace booster
