#include "tests/plugins/split/spread_models.h"

#include "examples/several_tensors/encoder_decoder.h"

namespace booster::testing {

namespace {

// 3 patches and the class token; 8 classes.
Spread of_vit(int64_t blocks) {
  return {.name = "ViT",
          .model =
              [=] {
                return models::vit("vit_tiny_patch16_224", {.num_classes = 8,
                                                            .in_chans = 2,
                                                            .img_size = Size2d{6, 2},
                                                            .patch_size = 2,
                                                            .embed_dim = 64,
                                                            .depth = blocks,
                                                            .num_heads = 4});
              },
          .input =
              [](const Tensor& x) {
                return reshape(narrow(x, 1, 0, 24), {-1, 2, 6, 2});
              },
          .target = [](const Tensor& x) { return narrow(x, 1, 0, 8).clone(); },
          .broken = "head.weight"};
}

// Texts of 4 tokens with a vocabulary of 8.
Spread of_gpt2(int64_t blocks, int64_t heads) {
  return {.name = "GPT-2",
          .model =
              [=] {
                return models::gpt2("gpt2", {.vocab_size = 8,
                                             .n_positions = 4,
                                             .embd_pdrop = 0,
                                             .attn_pdrop = 0,
                                             .resid_pdrop = 0,
                                             .n_embd = 64,
                                             .n_layer = blocks,
                                             .n_head = heads});
              },
          .input = [](const Tensor& x) { return cast((narrow(x, 1, 0, 4) + 1) * 4, DType::i64); },
          .target =
              [](const Tensor& x) {
                return reshape(x, {-1, 4, 8});
              },
          .broken = "transformer.wte.weight"};
}

// As GPT-2, with rotary positions and two heads of queries to each of keys. llama has a head of its
// own; qwen3 has a tied one, biases, and norms of queries and keys.
Spread of_decoder(const std::string& name, int64_t blocks, int64_t heads) {
  Spread spread = of_gpt2(blocks, heads);
  const bool tied = name == "qwen3";
  spread.name = name;
  spread.model = [=] {
    return models::decoder(name, {.vocab_size = 8,
                                  .hidden_size = 64,
                                  .intermediate_size = 96,
                                  .num_hidden_layers = blocks,
                                  .num_attention_heads = 2 * heads,
                                  .num_key_value_heads = heads,
                                  .head_dim = 8,
                                  .max_position_embeddings = 4,
                                  .attention_bias = tied,
                                  .tie_word_embeddings = tied});
  };
  spread.broken = tied ? "model.embed_tokens.weight" : "lm_head.weight";
  return spread;
}

// As GPT-2, an encoder that normalises after its residual connections. Every second text is of the
// other type of tokens. Keys' biases are frozen: they move all scores of a query alike, so that
// their gradients are rounding alone.
Spread of_bert(int64_t blocks, int64_t heads) {
  Spread spread = of_gpt2(blocks, heads);
  spread.name = "BERT";
  spread.model = [=] {
    const Model model = models::bert({.vocab_size = 8,
                                      .hidden_size = 64,
                                      .num_hidden_layers = blocks,
                                      .num_attention_heads = heads,
                                      .intermediate_size = 96,
                                      .hidden_dropout_prob = 0,
                                      .attention_probs_dropout_prob = 0,
                                      .max_position_embeddings = 4,
                                      .initializer_range = 0.1,
                                      .layer_norm_eps = 1e-5});
    for (auto& [name, parameter] : model.parameters())
      if (name.ends_with("key.bias")) parameter.requires_grad_(false);
    return model;
  };
  spread.input = [ids = spread.input](const Tensor& x) {
    const Tensor types = cast(greater(narrow(x, 1, 4, 1), 0.0), DType::i64);
    return stack({ids(x), expand(types, {x.size(0), 4})}, 1);
  };
  spread.broken = "bert.embeddings.word_embeddings.weight";
  return spread;
}

// Named tensors: texts of 4 tokens, of which a mask hides some, and targets of 4. Keys' biases are
// frozen, as BERT's.
Spread of_encoder_decoder(int64_t blocks, int64_t heads) {
  const int64_t of_each = (blocks + 2) / 2;  // encoders and decoders
  Spread spread = of_gpt2(blocks, heads);
  spread.name = "Encoder-decoder";
  spread.model = [=] {
    const Model model = several_tensors::encoder_decoder(
        {.vocabulary = 8, .features = 64, .heads = heads, .blocks = of_each, .longest = 4});
    for (auto& [name, parameter] : model.parameters())
      if (name.ends_with("k.bias")) parameter.requires_grad_(false);
    return model;
  };
  spread.input = [ids = spread.input](const Tensor& x) -> Tensors {
    const Tensor hidden = greater(narrow(x, 1, 8, 4), 0.3);
    const Tensor mask = equal(cast(hidden, DType::i64) * arange(4), 0);  // the first is visible
    return {{"source", ids(x)}, {"mask", mask}, {"target", ids(narrow(x, 1, 4, 4))}};
  };
  // In the last stage, and split where layers are.
  spread.broken = std::to_string(2 * of_each) + ".fc2.weight";
  return spread;
}

}  // namespace

const std::vector<std::string>& spread_models() {
  static const std::vector<std::string> names = {"ViT",   "GPT-2", "llama",
                                                 "qwen3", "BERT",  "Encoder-decoder"};
  return names;
}

Spread of_model(const std::string& name, int64_t blocks, int64_t heads) {
  if (name == "ViT") return of_vit(blocks);
  if (name == "BERT") return of_bert(blocks, heads);
  if (name == "Encoder-decoder") return of_encoder_decoder(blocks, heads);
  return name == "GPT-2" ? of_gpt2(blocks, heads) : of_decoder(name, blocks, heads);
}

}  // namespace booster::testing
