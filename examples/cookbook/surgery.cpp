// Changes a finished model: a ResNet-20 gets group norms in the place of its batch norms, a new
// head, a frozen stem, and groups of parameters with options of their own, by patterns of names.
//   build/examples/surgery [PRECISION [LAYOUT]]
#include "examples/training/layout.h"

#include <fmt/core.h>

using namespace booster;

// Images of one bright quarter each; the label is the quarter.
std::pair<Tensor, Tensor> quarters(int64_t n) {
  const Tensor label = randint(0, 4, {n}), place = arange(16);
  const Tensor row = (place >= 8).to(DType::i64).reshape({1, 1, 16, 1});
  const Tensor column = (place >= 8).to(DType::i64).reshape({1, 1, 1, 16});
  const Tensor bright = equal(row * 2 + column, label.reshape({n, 1, 1, 1}));
  return {bright.to(DType::f32) + normal({n, 3, 16, 16}), label};
}

int main(int argc, char** argv) {
  report_uncaught_errors();
  const World world = launch_from_env();
  Booster booster = example::booster_of(argc, argv, world);
  Model model = models::resnet20();
  const int64_t norms = model->replace_modules("*bn?", [](const Model& part) -> Model {
    return GroupNorm(8, static_cast<BatchNorm2d&>(part.module()).weight.size(0));
  });
  model->replace_modules("fc", [](const Model&) -> Model { return Linear(64, 4); });
  model->freeze({"conv1", "bn1"});
  AdamW optimizer({{model->parameters({"!fc", "!*.bias", "!*bn?"})},
                   {model->parameters({"*.bias", "*bn?", "!fc"}), {{"weight_decay", 0.0}}},
                   {model->parameters({"fc"}), {{"lr", 1e-2}}}},
                  {.lr = 2e-3, .weight_decay = 0.05});
  auto [net, opt, loss_fn] = booster.boost(model, optimizer, CrossEntropyLoss());
  const auto [x, y] = quarters(512);
  const auto [unseen, truth] = quarters(128);
  DataLoader data = booster.prepare_dataloader(
      TensorDataset(x, y), {.batch_size = 32 / booster.plugin().layout().data, .shuffle = true});
  for (int epoch = 0; epoch < 3; ++epoch)
    for (auto& [image, label] : data) {
      booster.backward(loss_fn(net(image), label), opt);
      opt.step();
      opt.zero_grad();
    }
  net.eval();
  const NoGradGuard no_grad;
  const double right = mean(top_k_correct(net(unseen), truth)).item();
  if (world.rank == 0)
    fmt::print("{} norms replaced, {} buffers left\naccuracy {:.1f} %\n", norms,
               model.buffers().size(), 100 * right);
}
