#include "plugins/torch_ddp.h"

#include "core/autograd/tape.h"
#include "parallel/mesh.h"
#include "platform/copies.h"
#include "platform/warn.h"

#include <utility>

namespace booster {

namespace {

constexpr double mib = 1024 * 1024;

std::optional<DType> dtype_named(const std::string& name) {
  if (name.empty()) return std::nullopt;
  if (name == "fp16") return DType::f16;
  if (name == "bf16") return DType::bf16;
  fail("torch_ddp: comm_dtype: unknown dtype; got '{}'{}", name,
       legal_names(name, {"", "fp16", "bf16"}));
}

GradientBucketOptions bucket_options(const TorchDDPOptions& options) {
  check(options.bucket_cap_mb > 0, "torch_ddp: bucket_cap_mb must be > 0; got {}",
        options.bucket_cap_mb);
  return {.cap_bytes = static_cast<int64_t>(options.bucket_cap_mb * mib),
          .views = options.gradient_as_bucket_view,
          .sent_as = dtype_named(options.comm_dtype),
          .may_differ = options.find_unused_parameters || options.static_graph};
}

}  // namespace

TorchDdp::TorchDdp(TorchDDPOptions options) : TorchDdp(options, launch_from_env().group()) {}

TorchDdp::TorchDdp(TorchDDPOptions options, Mesh mesh)
    : DataParallelPlugin(std::move(mesh), options.broadcast_buffers),
      options_(std::move(options)),
      buckets_(ranks(), bucket_options(options_)) {}

TorchDdp::TorchDdp(const TorchDdp& other)
    : DataParallelPlugin(other), options_(other.options_), buckets_(other.buckets_) {}

TorchDdp::~TorchDdp() {
  for (size_t i = 0; i < watched_.size(); ++i)
    remove_grad_ready_hook(watched_[i].tensor, hooks_[i]);
}

void TorchDdp::prepare(const Model& model, const Optimizers& optimizers) {
  DataParallelPlugin::prepare(model, optimizers);
  buckets_.serve(training());
  watch_new();
  const std::vector<int64_t> all = over_stages({buckets_.parameters(), buckets_.count()});
  check(all[0] > 0, "torch_ddp: the model has no parameter that requires a gradient");
  if (mesh().world().rank() != 0 || ranks().size() == 1) return;
  warn(fmt::format("torch_ddp: found {} all_reduce operations; after fusion {}", all[0], all[1]));
}

DataLoader TorchDdp::prepare_dataloader(std::shared_ptr<const Dataset> dataset,
                                        DataLoaderOptions options) const {
  options.join = options_.join && options.even_shares;
  return DataParallelPlugin::prepare_dataloader(std::move(dataset), std::move(options));
}

void TorchDdp::watch_new() {
  const Parameters added = new_parameters();
  if (added.empty()) return;
  buckets_.add(added);
  for (const NamedTensor& parameter : added) {
    const auto i = static_cast<int64_t>(watched_.size());
    watched_.push_back(parameter);
    hooks_.push_back(on_grad_ready(parameter.tensor, [this, i](const Tensor&) { on_ready(i); }));
  }
  repacks_ |= graph_.is_known();
}

void TorchDdp::on_ready(int64_t i) {
  if (options_.static_graph) graph_.reach(i);
  if (graph_.is_known() && !graph_.is_used_here(i)) return;  // the end of the pass reports it
  if (exchanges_)
    buckets_.mark_ready(i);
  else
    buckets_.mark_local(i);
}

PassScope TorchDdp::begin(const PassStart& start) {
  if (start.pass == Pass::forward) return {};
  watch_new();
  if (options_.static_graph) graph_.begin(watched_);
  if (std::exchange(repacks_, false)) {
    std::vector<bool> awaited = graph_.used_here();
    awaited.resize(watched_.size());
    buckets_.pack_again(graph_.order(), awaited);
  }
  exchanges_ = start.sync;
  if (start.sync) buckets_.begin();
  return {{.end = [this] { end_backward(); }}};
}

void TorchDdp::end_backward() {
  const NoGradGuard no_grad;
  keeps_local_ = !std::exchange(exchanges_, false);
  if (keeps_local_) return;
  buckets_.finish(options_.find_unused_parameters || options_.static_graph);
  if (options_.static_graph)
    end_static_exchange();
  else if (options_.find_unused_parameters)
    adopt_gradients_of_others();
}

// Adopts averages for gradients that this rank lacks. They counted as 0; if another rank had one,
// this rank takes the average.
void TorchDdp::adopt_gradients_of_others() {
  std::vector<uint8_t> used;
  for (const NamedTensor& parameter : watched_) used.push_back(parameter.tensor.grad().defined());
  ranks().all_reduce(used, CollectiveOp::max);
  for (size_t i = 0; i < used.size(); ++i) {
    const Tensor& parameter = watched_[i].tensor;
    if (used[i] && !parameter.grad().defined())
      parameter.set_grad(buckets_.window(static_cast<int64_t>(i)));
  }
}

// Ends an exchange of a static graph, without a message. All collectives have finished, so a rank
// whose graph differs may throw alone; other ranks detect its exit.
void TorchDdp::end_static_exchange() {
  if (!graph_.is_known()) {
    graph_.learn(watched_, ranks());
    repacks_ = true;
  }
  graph_.end_exchange(watched_);
  for (const int64_t i : graph_.order()) {
    const Tensor& parameter = watched_[i].tensor;
    if (!graph_.is_used_here(i) && !parameter.grad().defined())
      parameter.set_grad(buckets_.window(i));
  }
}

// Prepares a step or a clip after passes without an exchange. The passes may have been abandoned
// since, so ranks compare which gradients exist.
void TorchDdp::sync_static() {
  if (!std::exchange(keeps_local_, false)) return;
  graph_.begin(watched_);
  buckets_.exchange_local(true);
  adopt_gradients_of_others();
  std::vector<uint8_t> any = {graph_.has_reached()};
  ranks().all_reduce(any, CollectiveOp::max);
  if (any[0]) end_static_exchange();
}

void TorchDdp::sync_grads(const Optimizer& optimizer) {
  const NoGradGuard no_grad;
  if (options_.static_graph) return sync_static();
  if (options_.find_unused_parameters) {
    std::vector<uint8_t> local = {buckets_.any_local()};  // differs between ranks
    ranks().all_reduce(local, CollectiveOp::max);
    if (!local[0]) return;
    buckets_.exchange_local(true);
    return adopt_gradients_of_others();
  }
  check_none_missing(optimizer, "find_unused_parameters = true");
  buckets_.exchange_local(false);
}

PluginMaker TorchDDPPlugin(TorchDDPOptions options) {
  return copies_of<Plugin>(TorchDdp(std::move(options)));
}
PluginMaker TorchDDPPlugin(TorchDDPOptions options, Mesh mesh) {
  return copies_of<Plugin>(TorchDdp(std::move(options), std::move(mesh)));
}

}  // namespace booster
