#include "tests/plugins/pipeline/stages_plugin.h"

#include "core/optim/clip.h"
#include "plugins/gradients/rank_norms.h"

namespace booster::testing {

void StagesPlugin::shard(const Model& model, const Optimizers& optimizers) {
  for (const NamedTensor& held : model.state_dict()) group().broadcast(held.tensor);
  stages_.shard(model, optimizers);
  for (Optimizer optimizer : optimizers) {
    std::vector<Tensor> counted;
    for (const auto& [name, tensor] : optimizer.parameters())
      if (stages_.counts_here(tensor)) counted.push_back(tensor);
    const auto norm = [counted, device = optimizer.device(), group = group()](double power) {
      std::vector<Tensor> gradients;
      for (const Tensor& parameter : counted)
        if (const Tensor grad = dense_grad(parameter); grad.defined()) gradients.push_back(grad);
      return norm_over_ranks(gradients, power, device, group);
    };
    optimizer.share_norms({.gradient_norm = norm, .add_squares = {}});
  }
}

// No two stages share a layer, except tied ones, which see the same gradients.
void StagesPlugin::agree(Tensor& numbers, Among among) {
  if (among == Among::everybody) group().all_reduce(numbers, CollectiveOp::max);
}

Tensor train_on(const Tensor& input, const Tensor& target, const Booster& booster,
                const BoostedModel& model, const Criterion& loss, BoostedOptimizer& optimizer) {
  const struct {
    Tensor input, target;
  } only = {input, target};
  const auto* at = &only;
  return booster.execute_pipeline(at, model, loss, optimizer);
}

Criterion mean_of_squares() {
  return {"mean of squares", [](const Tensor& y, const Tensor& t) { return mse_loss(y, t); }};
}

}  // namespace booster::testing
