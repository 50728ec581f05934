// An auxiliary loss: a classifier of rings whose first layers guess too. The model gives two
// tensors. The loss adds the early guess's error, which trains the first layers directly.
//   build/examples/auxiliary_loss [PRECISION] [LAYOUT]
#include "examples/training/layout.h"

#include <fmt/core.h>

using namespace booster;

constexpr int64_t classes = 3, width = 64;

// Takes one tensor, and hands on two.
class Trunk : public Module {
 public:
  Trunk() : Module("Trunk") {}
  Sequential& layers = add<Sequential>(
      "layers", std::vector<Model>{Linear(2, width), GELU(), Linear(width, width), GELU()});
  Linear& guess = add<Linear>("guess", width, classes);

 private:
  Tensors forward_named(const Tensors& points) override {
    const Tensor x = layers(points.only());
    return {{"x", x}, {"early", guess(x)}};
  }
};

class Top : public Module {
 public:
  Top() : Module("Top") {}
  Linear& inner = add<Linear>("inner", width, width);
  Linear& head = add<Linear>("head", width, classes);

 private:
  Tensors forward_named(const Tensors& x) override {
    return {{"logits", head(gelu(inner(x["x"])))}, {"early", x["early"]}};
  }
};

int main(int argc, char** argv) {
  report_uncaught_errors();
  const World world = launch_from_env();
  Booster booster = example::booster_of(argc, argv, world);
  Model model = Sequential({Trunk(), Top()});
  const Criterion criterion = [](const Tensors& y, const Tensor& ring) {
    return cross_entropy(y["logits"], ring) + 0.3 * cross_entropy(y["early"], ring);
  };
  auto [net, opt, loss_fn] =
      booster.boost(model, AdamW(model.parameters(), {.lr = 3e-3}), criterion);
  seed_ranks(1, booster.plugin().mesh());  // ranks draw different points, stages the same
  for (int step = 0; step < 400; ++step) {
    const Tensor points = uniform({128, 2}, -1, 1);
    const Tensor ring = cast(minimum(norm(points, {1}) * 3, full({}, 2)), DType::i64);
    const std::pair<Tensor, Tensor> batch = {points, ring};
    const auto* at = &batch;
    const Tensor loss = booster.execute_pipeline(at, net, loss_fn, opt);
    opt.step();
    opt.zero_grad();
    if (step % 100 == 99 && world.rank == 0)
      fmt::print("step {} loss {:.4f}\n", step + 1, loss.item());
  }
}
