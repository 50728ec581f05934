#include "booster/booster.h"

#include "booster/pairing.h"
#include "kernels/trace.h"

namespace booster {
namespace {

template <class Product>
Registry<Product>& registry_of();
template <>
Registry<Plugin>& registry_of() {
  return plugin_registry();
}
template <>
Registry<Precision>& registry_of() {
  return precision_registry();
}

// What backward starts from must be one number; the message speaks of the loss.
void check_loss(const Tensor& loss) {
  check(loss.defined(), "booster.backward: loss is undefined");
  check(loss.numel() == 1, "booster.backward: the loss must have one element; got shape {}",
        loss.shape());
}

}  // namespace

template <class Product>
Choice<Product>::Choice(std::string name) {
  registry_of<Product>().find(name);  // a wrong name is an error here, not at the first use
  make_ = [name = std::move(name)] { return registry_of<Product>().make(name); };
}
template class Choice<Plugin>;
template class Choice<Precision>;

Booster::Booster(BoosterOptions options)
    : options_(std::move(options)),
      plugin_(options_.plugin.make()),
      precision_(options_.mixed_precision.make()) {
  check_pair(*precision_, *plugin_, plugin_->layout());
}

Booster Booster::from_config(const Config& config) {
  check(config.get<std::string>("device") != "cuda",
        "device: models live on the CPU in this version; got cuda, want auto or cpu");
  const OptionValues plugin = config.options("booster.plugin");
  const OptionValues precision = config.options("booster.mixed_precision");
  return Booster({.plugin = Choice<Plugin>([plugin] { return plugin_registry().make(plugin); }),
                  .mixed_precision = Choice<Precision>(
                      [precision] { return precision_registry().make(precision); })});
}

std::shared_ptr<Session> Booster::open_session(const Model& model,
                                               const Optimizer& optimizer) const {
  auto session = std::make_shared<Session>(
      Session{options_.mixed_precision.make(), options_.plugin.make(), model, optimizer});
  session->precision->prepare(session->model, session->optimizer);
  session->plugin->prepare(session->model, session->optimizer);
  session->pass_on_notes();
  return session;
}

BoostedPair Booster::boost(const Model& model, const Optimizer& optimizer) {
  const auto session = open_session(model, optimizer);
  return {BoostedModel(session), BoostedOptimizer(session)};
}

BoostedTriple Booster::boost(const Model& model, const Optimizer& optimizer,
                             const Criterion& criterion) {
  const auto session = open_session(model, optimizer);
  const Criterion in_numbers(criterion.name(),
                             [session, criterion](const Tensor& y, const Tensor& t) {
                               const PolicyScope numbers(session->precision->policy(y.device()));
                               return criterion(y, t);
                             });
  return {BoostedModel(session), BoostedOptimizer(session), in_numbers};
}

Boosted Booster::boost(const Model& model, const Optimizer& optimizer, const Criterion& criterion,
                       const DataLoader& loader, const LRScheduler& scheduler) {
  auto [net, opt, loss_fn] = boost(model, optimizer, criterion);
  return {net, opt, loss_fn, loader, scheduler};
}

void Booster::backward(const Tensor& loss, BoostedOptimizer& optimizer) const {
  check_loss(loss);
  const kernels::TraceScope span("backward", kernels::SpanKind::phase);
  Session& session = *optimizer.session_;
  session.grads_synced = false;
  if (session.watcher) session.watcher->backward_begins(loss);
  booster::backward(session.precision->scale(loss));
  session.end_pass(Pass::backward);
  if (session.watcher) session.watcher->gradients_are_known();
}

NoSyncGuard Booster::no_sync(const BoostedModel& model, const BoostedOptimizer& optimizer) const {
  check(model.session_ == optimizer.session_,
        "booster.no_sync: model and optimizer were not boosted together");
  return NoSyncGuard(optimizer.session_);
}

DataLoader Booster::prepare_dataloader(std::shared_ptr<const Dataset> dataset,
                                       DataLoaderOptions options) const {
  return plugin_->prepare_dataloader(std::move(dataset), std::move(options));
}

}  // namespace booster
