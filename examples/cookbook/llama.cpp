// A Llama of a program's own: RMSNorm, rotary positions, grouped queries and SwiGLU. traits() and
// links let it train on any layout. It writes a file with Hugging Face's names.
//   build/examples/llama [PRECISION [LAYOUT [FILE]]]
#include "examples/training/layout.h"

#include <fmt/core.h>

using namespace booster;

struct Sizes {
  int64_t vocabulary = 32, width = 32, inner = 64, layers = 2, heads = 4, key_heads = 2;
  double theta = 10000, eps = 1e-6;
  int64_t head() const { return width / heads; }
};
const LinearOptions plain = {.bias = false};

class Attention : public Module {
  const Sizes s;  // first, because the parts below read it
 public:
  explicit Attention(const Sizes& sizes) : Module("Attention"), s(sizes) {}
  Linear& q_proj = add<Linear>("q_proj", s.width, s.width, plain);
  Linear& k_proj = add<Linear>("k_proj", s.width, s.key_heads* s.head(), plain);
  Linear& v_proj = add<Linear>("v_proj", s.width, s.key_heads* s.head(), plain);
  Linear& o_proj = add<Linear>("o_proj", s.width, s.width, plain);
  int64_t attention_heads() const override { return k_proj.weight.size(0) / s.head(); }

 private:
  // (n, tokens, features) to (n, heads, tokens, size); a rank may hold some heads or tokens only.
  Tensor heads_of(const Tensor& x) const {
    return x.reshape({x.size(0), x.size(1), -1, s.head()}).transpose(1, 2);
  }
  // Turns pairs of features by an angle that grows with their token's position.
  Tensor turned(const Tensor& x) const {
    const int64_t tokens = x.size(2);
    const Tensor place = arange(tokens) + static_cast<double>(first_token(tokens));
    const Tensor exponent = arange(0.0, 1.0, 2.0 / static_cast<double>(s.head()));
    const Tensor angle = outer(place.to(DType::f32), pow(s.theta, -exponent));
    const Tensor c = cos(angle).to(x.device()).to(x.dtype());
    const Tensor d = sin(angle).to(x.device()).to(x.dtype());
    const std::vector<Tensor> half = chunk(x, 2, 3);
    return cat({half[0] * c - half[1] * d, half[1] * c + half[0] * d}, 3);
  }
  Tensor forward(const Tensor& x) override {
    const Tensor q = turned(heads_of(q_proj(x))), k = turned(heads_of(k_proj(x)));
    const Tensor y = attention(q, k, heads_of(v_proj(x)), {.causal = true});
    return o_proj(flatten(y.transpose(1, 2), 2));
  }
};

class Mlp : public Module {
  const Sizes s;

 public:
  explicit Mlp(const Sizes& sizes) : Module("Mlp"), s(sizes) {}
  Linear& gate_proj = add<Linear>("gate_proj", s.width, s.inner, plain);
  Linear& up_proj = add<Linear>("up_proj", s.width, s.inner, plain);
  Linear& down_proj = add<Linear>("down_proj", s.inner, s.width, plain);

 private:
  Tensor forward(const Tensor& x) override { return down_proj(silu(gate_proj(x)) * up_proj(x)); }
};

class Block : public Module {
  const Sizes s;

 public:
  explicit Block(const Sizes& sizes) : Module("Block"), s(sizes) {}
  RMSNorm& first = add<RMSNorm>("input_layernorm", s.width, {.eps = s.eps});
  Attention& self_attn = add<Attention>("self_attn", s);
  RMSNorm& second = add<RMSNorm>("post_attention_layernorm", s.width, {.eps = s.eps});
  Mlp& mlp = add<Mlp>("mlp", s);

 private:
  Tensor forward(const Tensor& x) override {
    const Tensor y = x + self_attn(first(x));
    return y + mlp(second(y));
  }
};

Model blocks_of(const Sizes& s) {
  std::vector<Model> blocks;
  for (int64_t i = 0; i < s.layers; ++i) blocks.push_back(Block(s));
  return Sequential(blocks);
}

// Embedding, blocks, norm and head. A Sequential is its parts' links, so stages may cut it.
class Llama : public Sequential {
 public:
  explicit Llama(const Sizes& s)
      : Sequential({Embedding(s.vocabulary, s.width), blocks_of(s),
                    RMSNorm(s.width, {.eps = s.eps}),
                    Linear(s.width, s.vocabulary, {.bias = false})}) {}
  ModuleTraits traits() const override {
    const LayerPlan column = {.style = SplitStyle::column}, row = {.style = SplitStyle::row};
    return {.tensor_plan = {{"1.*.[qkvgu]*_proj", column},
                            {"1.*.[od]*_proj", row},
                            {"3", {.style = SplitStyle::column, .gather = true}}},
            .blocks = "1.*", .token_dimension = 1,
            .file_form = renamed({{"0.", "model.embed_tokens."}, {"1.", "model.layers."},
                                  {"2.", "model.norm."}, {"3.", "lm_head."}})};
  }
};

int main(int argc, char** argv) {
  report_uncaught_errors();
  const World world = launch_from_env();
  Booster booster = example::booster_of(argc, argv, world);
  const Sizes s;
  Model model = Llama(s);
  const Criterion criterion = [](const Tensor& logits, const Tensor& next) {
    return cross_entropy(flatten(logits, 0, 1), flatten(next));
  };
  auto [net, opt, loss_fn] =
      booster.boost(model, AdamW(model.parameters(), {.lr = 3e-3}), criterion);

  // Texts count by a step of their own: 3 5 7 9 ... The label of a token is the next one.
  const Tensor start = randint(0, s.vocabulary, {576, 1}), step = randint(1, 4, {576, 1});
  const Tensor texts = remainder(start + arange(17) * step, static_cast<double>(s.vocabulary));
  const Tensor x = narrow(texts, 1, 0, 16), y = narrow(texts, 1, 1, 16);
  DataLoader data = booster.prepare_dataloader(
      TensorDataset(narrow(x, 0, 0, 512), narrow(y, 0, 0, 512)),
      {.batch_size = 16 / booster.plugin().layout().data, .shuffle = true});
  for (int epoch = 0; epoch < 4; ++epoch)
    for (auto batch = data.begin(); batch != data.end();) {
      booster.execute_pipeline(batch, net, loss_fn, opt);
      opt.clip_grad_by_norm(1.0);
      opt.step();
      opt.zero_grad();
    }
  net.eval();
  const NoGradGuard no_grad;
  const Tensor unseen = narrow(x, 0, 512, 64), logits = net(unseen);
  const double loss = loss_fn(logits, narrow(y, 0, 512, 64)).item();
  // The file has Hugging Face's names, so the library's own Llama reads it.
  const std::string file = argc > 3 ? argv[3] : "llama.safetensors";
  booster.save_model(net, file);
  if (world.rank > 0) return 0;
  Model same = models::decoder("llama", {.vocab_size = s.vocabulary,
                                         .hidden_size = s.width,
                                         .intermediate_size = s.inner,
                                         .num_hidden_layers = s.layers,
                                         .num_attention_heads = s.heads,
                                         .num_key_value_heads = s.key_heads,
                                         .rms_norm_eps = s.eps});
  same.load_state_dict(load_safetensors(file));
  same.eval();
  fmt::print("logits differ by {:.1e}\nloss {:.5f}\n",
             abs(same(unseen) - logits.to(DType::f32)).max().item(), loss);
}
