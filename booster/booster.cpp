#include "booster/booster.h"

#include "booster/boost_arguments.h"
#include "booster/config/config_agreement.h"
#include "booster/config/pairing.h"
#include "booster/training/session.h"
#include "core/nn/module_traits.h"
#include "parallel/mesh.h"
#include "platform/forks.h"

#include <fmt/format.h>

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

// A module that holds models that train together and are called separately.
class SeveralModels : public Module {
 public:
  explicit SeveralModels(const std::vector<Model>& models) : Module("SeveralModels") {
    for (const Model& model : models)
      add_existing(std::to_string(children().size()), shared(model));
  }

 private:
  static std::shared_ptr<Module> shared(const Model& model) {
    model.module();  // throws if there is none
    return model.shared();
  }
  ModuleTraits traits() const override { return {.several_models = true}; }
  Tensor forward(const Tensor&) override {
    fail("several models were boosted together; want separate calls of each");
  }
};

// Checks that backward starts from one element; messages call it the loss.
void check_loss(const Tensor& loss) {
  check(loss.defined(), "booster.backward: loss is undefined");
  check(loss.numel() == 1, "booster.backward: the loss must have one element; got shape {}",
        loss.shape());
}

// Handle groups that are added later. check_new_groups checks them before any change; at the end
// keep_new_groups keeps their gradients, as for the first groups.
void check_new_groups(const Optimizers& optimizers, const std::weak_ptr<Iteration>& iteration) {
  for (Optimizer optimizer : optimizers)
    optimizer.on_new_group([iteration](Optimizer& owner, const Parameters& added) {
      if (const auto all = iteration.lock()) check_joins(owner, added, all->all, all->keeper.get());
    });
}

void keep_new_groups(const Optimizers& optimizers, const std::weak_ptr<Iteration>& iteration) {
  for (Optimizer optimizer : optimizers)
    optimizer.on_new_group([iteration](Optimizer& owner, const Parameters& added) {
      const auto all = iteration.lock();
      if (!all) return;
      std::vector<Tensor> leaves;
      for (const auto& [name, tensor] : added) leaves.push_back(tensor);
      all->keeper->keep(leaves);
      all->loans->add(owner, added);
    });
}

}  // namespace

template <class Product>
Choice<Product>::Choice(std::string name) {
  registry_of<Product>().find(name);  // throws for a wrong name here, not at the first use
  make_ = [name = std::move(name)] { return registry_of<Product>().make(name); };
}
template class Choice<Plugin>;
template class Choice<Precision>;

Booster::Booster(BoosterOptions options)
    : options_(std::move(options)),
      plugin_(options_.plugin.make()),
      precision_(options_.mixed_precision.make()) {
  check(options_.loss_mean == "ranks" || options_.loss_mean == "rows",
        "booster: unknown loss_mean; got {}{}", options_.loss_mean,
        legal_names(options_.loss_mean, {"ranks", "rows"}));
  check_pair(*precision_, plugin_->name(), plugin_->layout());
}

Booster Booster::from_config(const Config& config) {
  const OptionValues plugin = config.options("booster.plugin");
  const OptionValues precision = config.options("booster.mixed_precision");
  const World world = launch_from_env();
  // Checked before the plugin forms its groups, because ranks must agree on their layout then.
  if (world.size > 1 && plugin.get<std::string>("name") != "single")
    check_agreement(config, world.group());
  return Booster({.plugin = Choice<Plugin>([plugin] { return plugin_registry().make(plugin); }),
                  .mixed_precision = Choice<Precision>(
                      [precision] { return precision_registry().make(precision); }),
                  .loss_mean = config.get<std::string>("booster.loss_mean")});
}

std::vector<std::shared_ptr<Session>> Booster::open_sessions(const std::vector<Model>& models,
                                                             const Optimizers& optimizers) const {
  check_boostable(models, optimizers);
  const bool joins_rows = options_.loss_mean == "rows";
  check(!joins_rows || optimizers.size() == 1,
        "booster.boost: loss_mean rows supports one optimizer; got {}, want loss_mean ranks",
        optimizers.size());
  const Model model = models.size() == 1 ? models[0] : Model(SeveralModels(models));
  const std::shared_ptr<Precision> precision = options_.mixed_precision.make();
  const std::shared_ptr<Plugin> plugin = options_.plugin.make();
  const auto iteration = std::make_shared<Iteration>();
  iteration->all = optimizers;
  iteration->weight = weight_;
  if (joins_rows) iteration->joined = std::make_unique<JoinedMean>(plugin->group());
  check_same_on_all_ranks(plugin->group(), precision->name(), plugin->name(), models, optimizers);
  precision->check_fits(model);
  check_new_groups(optimizers, iteration);
  plugin->shard(model, optimizers);
  precision->prepare(model, optimizers);
  plugin->prepare(model, optimizers);
  iteration->keeper = std::make_unique<GradientKeeper>(
      fmt::format("{} on {}", precision->name(), plugin->name()), leaves_of(models, optimizers));
  iteration->loans = std::make_unique<GradientLoans>(precision, optimizers);
  iteration->keeper->set_reader(
      [loans = iteration->loans.get()](const Tensor& leaf, const Tensor& in_memory) {
        return loans->read(leaf, in_memory);
      });
  keep_new_groups(optimizers, iteration);
  std::vector<std::shared_ptr<Session>> sessions;
  for (const Optimizer& optimizer : optimizers)
    sessions.push_back(make_shared_here<Session>(precision, plugin, iteration, model, optimizer));
  sessions[0]->pass_on_notes();
  return sessions;
}

BoostedPair Booster::boost(const Model& model, const Optimizer& optimizer) {
  const auto session = open_sessions({model}, optimizer)[0];
  return {BoostedModel(session), BoostedOptimizer(session)};
}

BoostedGroup Booster::boost(const std::vector<Model>& models,
                            const std::vector<Optimizer>& optimizers) {
  const auto sessions = open_sessions(models, optimizers);
  BoostedGroup group;
  for (const Model& model : models) group.models.emplace_back(sessions[0], model);
  for (const auto& session : sessions) group.optimizers.emplace_back(session);
  return group;
}

Criterion Booster::boosted_part(const BoostedPair& pair, const Criterion& criterion) {
  const std::shared_ptr<Session>& session = pair.optimizer.session_;
  const auto in_numbers = [session, criterion](const Tensors& y, const Tensors& target) {
    const PolicyScope numbers(session->precision->policy(y.device()));
    const Tensor loss = criterion(y, target);
    JoinedMean* joined = session->iteration->joined.get();
    return joined ? joined->note(loss, criterion.divisor(target), target.numel()) : loss;
  };
  return {criterion.name(), in_numbers,
          [criterion](const Tensors& target) { return criterion.divisor(target); }};
}

BoostedTriple Booster::boost(const Model& model, const Optimizer& optimizer,
                             const Criterion& criterion) {
  const BoostedPair pair = boost(model, optimizer);
  return {pair.model, pair.optimizer, boosted_part(pair, criterion)};
}

Boosted Booster::boost(const Model& model, const Optimizer& optimizer, const Criterion& criterion,
                       const DataLoader& loader, const LRScheduler& scheduler) {
  auto [net, opt, loss_fn] = boost(model, optimizer, criterion);
  return {net, opt, loss_fn, loader, scheduler};
}

void Booster::backward(const Tensor& loss, BoostedOptimizer& optimizer,
                       const ScaleLossOptions& options) const {
  backward(loss, std::vector<BoostedOptimizer>{optimizer}, options);
}

void Booster::backward(const Tensor& loss, const std::vector<BoostedOptimizer>& optimizers,
                       const ScaleLossOptions& options) const {
  check_loss(loss);
  check(!optimizers.empty(),
        "booster.backward: no optimizer; want the optimizers that use the loss's gradients");
  std::vector<Session*> sessions;
  for (const BoostedOptimizer& optimizer : optimizers) {
    sessions.push_back(optimizer.session_.get());
    check(sessions[0]->iteration == optimizer.session_->iteration,
          "booster.backward: the optimizers were not boosted together; want one boost of them all");
  }
  booster::backward(loss, sessions, options);
}

Tensor Booster::run(const Tensors& input, const Tensors& target, const BoostedModel& model,
                    const Criterion& criterion, BoostedOptimizer& optimizer) const {
  check(model.session_->iteration == optimizer.session_->iteration,
        "booster.execute_pipeline: model and optimizer were not boosted together");
  return optimizer.session_->run(model.model_, criterion, input, target);
}

NoSyncGuard Booster::no_sync(const BoostedModel& model, const BoostedOptimizer& optimizer,
                             bool active) const {
  check(model.session_->plugin == optimizer.session_->plugin,
        "booster.no_sync: model and optimizer were not boosted together");
  return NoSyncGuard(active ? std::shared_ptr<Session>(optimizer.session_) : nullptr);
}

NoSyncGuard Booster::no_sync(const BoostedGroup& group, bool active) const {
  check(!group.optimizers.empty(), "booster.no_sync: the group has no optimizer");
  return NoSyncGuard(active ? std::shared_ptr<Session>(group.optimizers.front().session_)
                            : nullptr);
}

DataLoader Booster::prepare_dataloader(std::shared_ptr<const Dataset> dataset,
                                       DataLoaderOptions options) const {
  if (!options.weight) options.weight = weight_;
  return plugin_->prepare_dataloader(std::move(dataset), std::move(options));
}

}  // namespace booster
