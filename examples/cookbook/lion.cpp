// An optimizer of one's own: Lion (Chen et al., "Symbolic Discovery of Optimization Algorithms",
// 2023), as a formula on tensors. It works with every strategy and plugin, and with checkpoints.
//   build/examples/lion [PRECISION [LAYOUT]]
#include "examples/training/layout.h"

#include <fmt/core.h>

using namespace booster;

struct LionOptions {
  double lr = 1e-4;
  std::pair<double, double> betas = {0.9, 0.99};
  double weight_decay = 0;
};

// p *= 1 - lr weight_decay;  p -= lr sign(beta1 m + (1 - beta1) g);  m = beta2 m + (1 - beta2) g
Optimizer Lion(const ParameterGroups& groups, const LionOptions& options) {
  const auto update = [](FormulaStep& step) {
    const auto option = [&](const char* name) { return step.options.at(name); };
    const Tensor &g = step.gradient, &m = step.state[0];
    const Tensor direction = sign(lerp(g, m, option("beta1")));
    step.value =
        step.value * (1 - option("lr") * option("weight_decay")) - option("lr") * direction;
    step.state[0] = lerp(g, m, option("beta2"));
  };
  return optimizer_of(
      {.name = "lion", .states = {"exp_avg"}, .update = update}, groups,
      {{"lr", options.lr}, {"betas", options.betas}, {"weight_decay", options.weight_decay}});
}

int main(int argc, char** argv) {
  report_uncaught_errors();
  const World world = launch_from_env();
  Booster booster = example::booster_of(argc, argv, world);
  const Tensor x = uniform({4096, 2}, -1, 1);
  const Tensor agree = greater(select(x, 1, 0) * select(x, 1, 1), 0).to(DType::i64);
  Model model = models::mlp({2, 64, 64, 2});
  Optimizer optimizer = Lion(model.parameters(), {.lr = 1e-3, .weight_decay = 0.01});
  auto [net, opt, loss_fn] = booster.boost(model, optimizer, CrossEntropyLoss());
  DataLoader data = booster.prepare_dataloader(
      TensorDataset(x, agree),
      {.batch_size = 64 / booster.plugin().layout().data, .shuffle = true});
  for (int epoch = 0; epoch < 5; ++epoch)
    for (auto& [point, label] : data) {
      booster.backward(loss_fn(net(point), label), opt);
      opt.step();
      opt.zero_grad();
    }
  net.eval();
  const NoGradGuard no_grad;
  const double loss = loss_fn(net(x), agree).item();
  const double right = mean(top_k_correct(net(x).to(DType::f32), agree)).item();
  if (world.rank == 0) fmt::print("accuracy {:.1f} %\nloss {:.5f}\n", 100 * right, loss);
}
