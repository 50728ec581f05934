// Trains the head of a Vision Transformer alone, on the features of its frozen body. An average of
// the weights is evaluated beside them, and written as ONNX.
//   build/examples/vit_head [PRECISION [LAYOUT [FILE.onnx [WEIGHTS]]]]
// WEIGHTS is a safetensors file of timm's vit_tiny_patch16_224 at another size or head.
#include "examples/training/layout.h"

#include <fmt/core.h>

#include <numbers>

using namespace booster;

constexpr int64_t side = 32;

// Images of waves across, down or in both directions, with noise.
std::pair<Tensor, Tensor> waves(int64_t n) {
  const Tensor label = randint(0, 3, {n}), place = arange(side).to(DType::f32);
  const Tensor phase = uniform({n, 1}, 0, 2 * std::numbers::pi);
  const Tensor wave = sin(place * 0.8 + phase).reshape({n, 1, 1, side});
  const Tensor across = wave.expand({n, 3, side, side}), down = across.transpose(2, 3);
  const Tensor kind = label.reshape({n, 1, 1, 1});
  const Tensor image = where(equal(kind, 0), across, where(equal(kind, 1), down, across * down));
  return {image + normal({n, 3, side, side}, 0, 0.3), label};
}

int main(int argc, char** argv) {
  report_uncaught_errors();
  const World world = launch_from_env();
  Booster booster = example::booster_of(argc, argv, world);
  const Group all = booster.plugin().group();
  const int64_t batch = 32 / booster.plugin().layout().data;
  const auto [x, y] = waves(1024);
  const auto [unseen, truth] = waves(256);
  DataLoader data =
      booster.prepare_dataloader(TensorDataset(x, y), {.batch_size = batch, .shuffle = true});
  DataLoader held_out =
      booster.prepare_dataloader(TensorDataset(unseen, truth), {.batch_size = batch});

  Model model =
      models::vit("vit_tiny_patch16_224", {.num_classes = 3, .img_size = side, .depth = 2});
  if (argc > 4) fmt::print("{}\n", load_weights(model, argv[4]));
  model->freeze({"*", "!head"});
  AdamW optimizer(model.parameters(), {.lr = 1e-2});
  auto [net, opt, loss_fn] = booster.boost(model, optimizer, CrossEntropyLoss());
  ParameterAverage average(opt.unwrap(), {.decay = 0.95});
  const auto accuracy = [&, &net = net] {
    const NoGradGuard no_grad;
    MeanMetric right(held_out);
    for (auto& [image, label] : held_out) right.add(top_k_correct(net(image), label));
    return 100 * right.value(all);
  };

  net.eval();  // the body draws no dropout; the head has none
  for (int epoch = 0; epoch < 4; ++epoch)
    for (auto& [image, label] : data) {
      booster.backward(loss_fn(net(image), label), opt);
      average.update(opt.step());
      opt.zero_grad();
    }
  const double last = accuracy();
  const AveragedWeights averaged = averaged_weights(opt, average);
  const double mean = accuracy();
  const WholeParameters whole(net);  // under fsdp ranks hold parts of them
  if (world.rank > 0) return 0;
  fmt::print("accuracy {:.1f} %, of the average {:.1f} %\n", last, mean);
  if (argc <= 3) return 0;
  export_onnx(model, {3, side, side}, argv[3], {.classes = {"across", "down", "both"}});
  const NoGradGuard no_grad;
  save_safetensors(std::string(argv[3]) + ".check", {{"input", unseen}, {"logits", model(unseen)}});
}
