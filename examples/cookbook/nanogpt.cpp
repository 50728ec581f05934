// nanoGPT: a character model of a text, built from layers. It trains with weight decay for matrices
// alone, accumulated gradients, clipping and a cosine schedule, and then continues a text.
//   build/examples/nanogpt [PRECISION [LAYOUT [TEXT]]]
#include "examples/training/layout.h"

#include <fmt/core.h>

#include <cmath>
#include <fstream>
#include <iterator>

using namespace booster;

constexpr int64_t window = 24, width = 64, heads = 4, depth = 2;

class Block : public Module {
 public:
  Block() : Module("Block") {}
  LayerNorm& ln_1 = add<LayerNorm>("ln_1", width);
  Linear& c_attn = add<Linear>("c_attn", width, 3 * width);
  Linear& c_proj = add<Linear>("c_proj", width, width);
  LayerNorm& ln_2 = add<LayerNorm>("ln_2", width);
  Linear& c_fc = add<Linear>("c_fc", width, 4 * width);
  Linear& mlp_proj = add<Linear>("mlp_proj", 4 * width, width);
  Dropout& drop = add<Dropout>("drop", 0.05);

 private:
  Tensor forward(const Tensor& x) override {
    const Tensor qkv = c_attn(ln_1(x)).reshape({x.size(0), x.size(1), 3, heads, width / heads});
    const Tensor y = x + drop(c_proj(attention_packed(qkv, {.causal = true})));
    return y + drop(mlp_proj(gelu(c_fc(ln_2(y)))));
  }
};

class NanoGpt : public Module {
 public:
  explicit NanoGpt(int64_t characters)
      : Module("NanoGpt"), wte(add<Embedding>("wte", characters, width)) {
    for (int64_t i = 0; i < depth; ++i) h.append(Block());
    for (const auto& [name, x] : parameters())
      if (x.ndim() == 2) init::normal(x, 0, 0.02);
  }
  Embedding& wte;
  Embedding& wpe = add<Embedding>("wpe", window, width);
  Sequential& h = add<Sequential>("h");
  LayerNorm& ln_f = add<LayerNorm>("ln_f", width);

 private:
  Tensor forward(const Tensor& ids) override {
    const Tensor places = arange(ids.size(1), {DType::i64, ids.device()});
    return linear(ln_f(h(wte(ids) + wpe(places))), wte.weight);  // the head is tied
  }
};

// Windows at random places of a text. The label of a character is the next one.
class Windows : public Dataset {
 public:
  Windows(std::vector<int64_t> text, int64_t samples) : text_(std::move(text)), samples_(samples) {}
  int64_t size() const override { return samples_; }
  Sample load(int64_t, RandomStream& random) const override {
    const auto at = text_.begin() + random.below(static_cast<int64_t>(text_.size()) - window);
    return {from_vector(std::vector(at, at + window), {window}),
            from_vector(std::vector(at + 1, at + window + 1), {window})};
  }

 private:
  std::vector<int64_t> text_;
  int64_t samples_;
};

std::string made_text() {
  std::string text;
  RandomStream random(1, 0, 0);
  for (int i = 0; i < 4000; ++i) {
    const int64_t a = random.below(5), b = random.below(5);
    text += fmt::format("{}+{}={}\n", a, b, a + b);
  }
  return text;
}

int main(int argc, char** argv) {
  report_uncaught_errors();
  const World world = launch_from_env();
  Booster booster = example::booster_of(argc, argv, world);

  std::string text = made_text();
  if (argc > 3) {
    std::ifstream file(argv[3], std::ios::binary);
    check(file.good(), "nanogpt: cannot read the text; got {}", argv[3]);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  std::string characters(text);
  std::ranges::sort(characters);
  characters.erase(std::ranges::unique(characters).begin(), characters.end());
  std::vector<int64_t> ids;
  for (const char c : text) ids.push_back(static_cast<int64_t>(characters.find(c)));
  const auto part = ids.begin() + static_cast<int64_t>(0.9 * static_cast<double>(ids.size()));

  constexpr int64_t steps = 240, accumulate = 2;
  const int64_t ranks = booster.plugin().layout().data, batch = 32 / accumulate / ranks;
  DataLoader data =
      booster.prepare_dataloader(Windows({ids.begin(), part}, 32 * steps), {.batch_size = batch});
  DataLoader held_out =
      booster.prepare_dataloader(Windows({part, ids.end()}, 128), {.batch_size = 32 / ranks});

  Model model = NanoGpt(static_cast<int64_t>(characters.size()));
  ParameterGroup matrices, others{{}, {{"weight_decay", 0.0}}};
  for (const NamedTensor& x : model.parameters())
    (x.tensor.ndim() == 2 ? matrices : others).parameters.push_back(x);
  AdamW optimizer({matrices, others}, {.lr = 3e-3, .betas = {0.9, 0.99}, .weight_decay = 0.1});
  CosineAnnealingWarmupLR schedule(optimizer,
                                   {.warmup_steps = 20, .total_steps = steps, .eta_min = 3e-4});
  const Criterion criterion = [](const Tensor& logits, const Tensor& next) {
    return cross_entropy(flatten(logits, 0, 1), flatten(next));
  };
  auto [net, opt, loss_fn] = booster.boost(model, optimizer, criterion);

  int64_t pass = 0;
  for (auto& [x, y] : data) {
    const bool last = ++pass % accumulate == 0;
    {
      const auto guard = booster.no_sync(net, opt, !last);
      booster.backward(loss_fn(net(x), y) / accumulate, opt);
    }
    if (!last) continue;
    opt.clip_grad_by_norm(1.0);
    schedule.step(opt.step());
    opt.zero_grad();
  }

  net.eval();
  const NoGradGuard no_grad;
  MeanMetric loss(held_out);
  for (auto& [x, y] : held_out) {
    const Tensor each =
        cross_entropy(flatten(net(x), 0, 1), flatten(y), {.reduction = Reduction::none});
    loss.add(each.reshape(y.shape()).mean(1));
  }
  std::string said = "1+2=3\n4+3=";
  for (int i = 0; i < 2 && argc <= 3; ++i) {
    std::vector<int64_t> prompt;
    for (const char c : said) prompt.push_back(static_cast<int64_t>(characters.find(c)));
    const Tensor logits = net(from_vector(prompt, {1, static_cast<int64_t>(prompt.size())}));
    said += characters[static_cast<size_t>(logits[{0, -1}].argmax().item())];
  }
  const double mean = loss.value(booster.plugin().group());
  if (world.rank == 0) fmt::print("{}\nloss {:.4f}\n", said, mean);
}
