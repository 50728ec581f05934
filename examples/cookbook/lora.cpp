// LoRA (Hu et al., 2021): fine-tunes a GPT-2 by adding two small matrices to each weight of its
// attention. The adapter alone is saved, with peft's names; then it joins the weights.
//   build/examples/lora [PRECISION [LAYOUT [FOLDER [ADAPTER]]]]
// FOLDER is one of Hugging Face's. Without it, a small model learns to repeat texts of one kind,
// and then the adapter another kind.
#include "examples/training/layout.h"

#include <fmt/core.h>

using namespace booster;

// base(x) + alpha / rank B(A(x)). B starts at 0, so the model starts unchanged.
class Lora : public Module {
 public:
  Lora(const Model& layer, int64_t rank, double alpha)
      : Module("Lora"),
        base(add_existing("base_layer", std::dynamic_pointer_cast<Linear>(layer.shared()))),
        lora_A(add<Linear>("lora_A", base.weight.size(1), rank, LinearOptions{.bias = false})),
        lora_B(add<Linear>("lora_B", rank, base.weight.size(0), LinearOptions{.bias = false})),
        scale_(alpha / static_cast<double>(rank)) {
    init::zeros(lora_B.weight);
  }
  Linear &base, &lora_A, &lora_B;

  // Adds B A to the layer's weight, and returns the layer.
  Model merged() {
    const NoGradGuard no_grad;
    Tensor weight = base.weight;
    weight += scale_ * matmul(lora_B.weight, lora_A.weight);
    return base.shared_from_this();
  }

 private:
  Tensor forward(const Tensor& x) override { return base(x) + scale_ * lora_B(lora_A(x)); }
  double scale_;
};

// A model whose weights are frozen, but for an adapter at each attention.
Model adapted(const Model& model) {
  model->freeze();
  model->replace_modules("*.c_attn", [](const Model& layer) -> Model { return Lora(layer, 4, 8); });
  return model;
}

Model new_model(int argc, char** argv) {
  if (argc > 3) return from_pretrained(argv[3]);
  return models::gpt2("gpt2", {.vocab_size = 64,
                               .n_positions = 16,
                               .embd_pdrop = 0,
                               .attn_pdrop = 0,
                               .resid_pdrop = 0,
                               .n_embd = 32,
                               .n_layer = 2,
                               .n_head = 4});
}

// Texts that count by `step`; the label of a token is the next one.
std::pair<Tensor, Tensor> counting(int64_t rows, double step) {
  const Tensor texts = remainder(randint(0, 64, {rows, 1}) + arange(13) * step, 64);
  return {narrow(texts, 1, 0, 12), narrow(texts, 1, 1, 12)};
}

Tensor loss_of(const Tensor& logits, const Tensor& next) {
  return cross_entropy(flatten(logits, 0, 1), flatten(next));
}

void train(const Booster& booster, BoostedTriple& boosted, double step, int epochs) {
  auto& [net, opt, loss_fn] = boosted;
  const auto [x, y] = counting(1024, step);
  DataLoader data = booster.prepare_dataloader(
      TensorDataset(x, y), {.batch_size = 16 / booster.plugin().layout().data, .shuffle = true});
  for (int epoch = 0; epoch < epochs; ++epoch)
    for (auto& [tokens, next] : data) {
      booster.backward(loss_fn(net(tokens), next), opt);
      opt.step();
      opt.zero_grad();
    }
  net.eval();
}

int main(int argc, char** argv) {
  report_uncaught_errors();
  const World world = launch_from_env();
  Booster booster = example::booster_of(argc, argv, world);
  Model model = new_model(argc, argv);
  if (argc <= 3) {  // stands for a published model: each rank trains the same one
    Booster alone({.plugin = SinglePlugin({.on_every_rank = true})});
    auto boosted = alone.boost(model, AdamW(model.parameters(), {.lr = 1e-2}), loss_of);
    train(alone, boosted, 1, 3);
  }
  adapted(model);
  auto boosted = booster.boost(model, AdamW(model.parameters(), {.lr = 1e-2}), loss_of);
  auto& [net, opt, loss_fn] = boosted;
  const auto [x, y] = counting(64, 2);
  const auto loss = [&, &net = net, x = x, y = y] {
    const NoGradGuard no_grad;
    return loss_of(net(x), y).item();
  };
  net.eval();
  const double before = loss();
  net.train();
  train(booster, boosted, 2, 4);
  const double after = loss();

  const WholeParameters whole(net);  // under fsdp ranks hold parts of them
  TensorMap adapter;
  for (const auto& [name, tensor] : model.state_dict())
    if (name.find(".lora_") != name.npos)
      adapter.emplace("base_model.model." + name, tensor.detach().to(DType::f32));
  Model merged = adapted(new_model(argc, argv));
  merged.load_state_dict(model.state_dict());
  merged.eval();
  const NoGradGuard no_grad;
  const Tensor apart = merged(x);
  merged->replace_modules(
      "*.c_attn", [](const Model& part) { return static_cast<Lora&>(part.module()).merged(); });
  if (world.rank > 0) return 0;
  if (argc > 4) save_safetensors(argv[4], adapter);
  fmt::print("{} tensors trained\nloss {:.4f} before, {:.4f} after\nmerging changes {:.1e}\n",
             adapter.size(), before, after, abs(merged(x) - apart).max().item());
}
