// A CLIP pair: two towers learn which image and text belong together. The model takes three tensors
// and gives three. Each image is compared to the texts of its rank or microbatch.
//   build/examples/clip_pair [PRECISION] [LAYOUT]
#include "examples/training/layout.h"

#include <fmt/core.h>

#include <cmath>

using namespace booster;

std::vector<Model> tower() { return {Linear(32, 64), GELU(), Linear(64, 24)}; }
Tensor on_sphere(const Tensor& x) { return x / norm(x, {1}, true); }

// Replaces the image by its features, and hands on the text.
class ImageTower : public Module {
 public:
  ImageTower() : Module("ImageTower") {}
  Sequential& layers = add<Sequential>("layers", tower());

 private:
  Tensors forward_named(const Tensors& x) override {
    Tensors all = x;
    all.set("image", on_sphere(layers(x["image"])));
    return all;
  }
};

class TextTower : public Module {
 public:
  TextTower() : Module("TextTower") {}
  Embedding& words = add<Embedding>("words", 16, 32);
  Sequential& layers = add<Sequential>("layers", tower());
  const Tensor scale = add_parameter("scale", full({}, std::log(1 / 0.07)));

 private:
  Tensors forward_named(const Tensors& x) override {
    const Tensor seen = x["mask"].to(DType::f32).unsqueeze(2);
    const Tensor sentence = (words(x["tokens"]) * seen).sum({1}) / seen.sum({1});
    return {{"image", x["image"]}, {"text", on_sphere(layers(sentence))}, {"scale", exp(scale)}};
  }
};

// Image i is a noisy picture of its first word.
Tensors drawn(int64_t n, const Tensor& pictures) {
  const Tensor tokens = cast(uniform({n, 4}, 0, 16), DType::i64);
  const Tensor mask = less(arange(4), cast(uniform({n, 1}, 1, 5), DType::i64));
  const Tensor image = embedding(select(tokens, 1, 0), pictures) + normal({n, 32}, 0, 0.1);
  return {{"image", image}, {"tokens", tokens}, {"mask", mask}};
}

int main(int argc, char** argv) {
  report_uncaught_errors();
  const World world = launch_from_env();
  Booster booster = example::booster_of(argc, argv, world);
  const Tensor pictures = normal({16, 32});
  Model model = Sequential({ImageTower(), TextTower()});
  const Criterion criterion = [](const Tensors& y, const Tensor&) {
    const Tensor scores = matmul(y["image"], y["text"].t()) * y["scale"];
    const Tensor own = arange(scores.size(0));
    return (cross_entropy(scores, own) + cross_entropy(scores.t(), own)) / 2;
  };
  auto [net, opt, loss_fn] =
      booster.boost(model, AdamW(model.parameters(), {.lr = 3e-3}), criterion);
  seed_ranks(1, booster.plugin().mesh());  // ranks draw different pairs, stages the same
  for (int step = 0; step < 300; ++step) {
    const std::pair<Tensors, Tensor> batch = {drawn(16, pictures), zeros({16})};
    const auto* at = &batch;
    const Tensor loss = booster.execute_pipeline(at, net, loss_fn, opt);
    opt.step();
    opt.zero_grad();
    if (step % 60 == 59 && world.rank == 0)
      fmt::print("step {} loss {:.4f}\n", step + 1, loss.item());
  }
}
