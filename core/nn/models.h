// The library's models: their options, and functions that make them. Their modules are in
// core/nn/models/, for code that reaches into a model.
//
//   Model model = models::vit("vit_tiny_patch16_224", {.num_classes = 10, .img_size = 32});
//
// Names in a config are the same. The functions throw for unknown names, with the nearest one, and
// for incompatible sizes.
#pragma once

#include "core/nn/layers.h"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace booster::models {

// --- models/vit.cpp: the Vision Transformer (Dosovitskiy et al., 2021) as timm builds it: same
// parameter names, shapes and initial distributions, so that timm's weights load unchanged.
struct VitOptions {
  int64_t num_classes = 1000;  // 0: no head, the model returns the class token's features
  double drop_rate = 0;        // before the head
  double attn_drop_rate = 0;   // attention probabilities
  double proj_drop_rate = 0;   // after the projections of attention and MLP
  double pos_drop_rate = 0;    // after the position embedding
  double drop_path_rate = 0;   // of the last block's branches; rises linearly from 0 at the first
  int64_t in_chans = 3;
  // The model's name sets these unless given.
  std::optional<Size2d> img_size = {};
  std::optional<int64_t> patch_size = {};
  std::optional<int64_t> embed_dim = {};
  std::optional<int64_t> depth = {};
  std::optional<int64_t> num_heads = {};
  double mlp_ratio = 4;
  bool qkv_bias = true;
};

// Makes vit_tiny_patch16_224, vit_small_patch16_224, vit_small_patch32_224, vit_base_patch16_224,
// vit_base_patch32_224, vit_large_patch16_224 or vit_large_patch32_224. Takes images (n, in_chans,
// height, width) of img_size; returns logits (n, num_classes). Throws with the nearest name for any
// other name.
Model vit(const std::string& name, VitOptions options = {});
std::vector<std::string> vit_names();
// Returns `options` with the sizes of the name. Throws for incompatible sizes: an image smaller
// than a patch, or heads that do not divide the features.
VitOptions vit_options(const std::string& name, VitOptions options = {});

// --- models/gpt2.cpp: GPT-2 (Radford et al., 2019) with the language model's head, as Hugging
// Face's GPT2LMHeadModel: same parameter names and initial distributions. Booster::load_model reads
// Hugging Face's files unchanged, and save_model writes such files.
struct Gpt2Options {
  int64_t vocab_size = 50257;
  int64_t n_positions = 1024;  // the longest text, in tokens
  double embd_pdrop = 0.1;     // dropout of the embeddings' sum
  double attn_pdrop = 0.1;     // of attention probabilities
  double resid_pdrop = 0.1;    // after the projections of attention and MLP
  // The id of the token that ends a document, for texts of several (core/nn/documents.h).
  std::optional<int64_t> document_end = {};
  // The model's name sets these unless given.
  std::optional<int64_t> n_embd = {};  // features
  std::optional<int64_t> n_layer = {};
  std::optional<int64_t> n_head = {};
};

// Makes gpt2 (124 M parameters), gpt2-medium, gpt2-large or gpt2-xl. Takes token ids (n, tokens),
// integers below vocab_size; returns the logits (n, tokens, vocab_size) of each next token. Throws
// for any other name, with the nearest one. forward throws for more tokens than n_positions.
Model gpt2(const std::string& name, Gpt2Options options = {});
std::vector<std::string> gpt2_names();
// Returns `options` with the sizes of the name. Throws for heads that do not divide the features.
Gpt2Options gpt2_options(const std::string& name, Gpt2Options options = {});

// --- models/decoder.cpp: the decoders of today's language models: llama, mistral, qwen2 and qwen3,
// as Hugging Face's LlamaForCausalLM and the others: same parameter names, initial distributions
// and results.

// Rotary position embeddings (Su et al., "RoFormer", 2021), and the ways to stretch them over
// longer texts, as Hugging Face's modeling_rope_utils.py defines them.
struct RotaryOptions {
  double theta = 10000;  // frequency[i] = theta^(-2 i / size)
  // default; linear: frequencies / factor (Chen et al., arXiv 2306.15595); dynamic: a larger theta
  // for texts of more than max_positions tokens; llama3: low frequencies / factor; yarn (Peng et
  // al., arXiv 2309.00071).
  std::string scaling = "default";
  double factor = 1;
  int64_t max_positions = 2048;                            // the model's
  std::optional<int64_t> original_positions = {};          // llama3, yarn: before stretching
  double low_freq_factor = 1, high_freq_factor = 4;        // llama3
  std::optional<double> attention_factor = {};             // yarn: of cosines and sines
  double beta_fast = 32, beta_slow = 1;                    // yarn
  std::optional<double> mscale = {}, mscale_all_dim = {};  // yarn
  bool truncate = true;                                    // yarn
};

// Names are those of Hugging Face's config.json. What is not given follows from the model's name,
// as in its configuration class.
struct DecoderOptions {
  std::optional<int64_t> vocab_size = {};
  std::optional<int64_t> hidden_size = {};
  std::optional<int64_t> intermediate_size = {};  // of the MLP
  std::optional<int64_t> num_hidden_layers = {};
  std::optional<int64_t> num_attention_heads = {};
  std::optional<int64_t> num_key_value_heads = {};  // divides num_attention_heads
  std::optional<int64_t> head_dim = {};
  std::optional<int64_t> max_position_embeddings = {};  // the longest text, in tokens
  std::optional<bool> attention_bias = {};              // llama, qwen3: of all four projections
  std::optional<int64_t> sliding_window = {};     // keys that a query sees, with its own; 0: all
  std::optional<int64_t> max_window_layers = {};  // qwen: layers before this one see all keys
  double rms_norm_eps = 1e-6;
  bool mlp_bias = false;             // llama
  bool tie_word_embeddings = false;  // the head shares the token embedding's weight
  double attention_dropout = 0;
  double initializer_range = 0.02;
  // The id of the token that ends a document, for texts of several (core/nn/documents.h).
  std::optional<int64_t> document_end = {};
  RotaryOptions rotary = {};  // rotary.max_positions is set from max_position_embeddings
};

// Makes a decoder. It takes token ids (n, tokens), integers below vocab_size, and returns the
// logits (n, tokens, vocab_size) of each next token. Throws for an unknown name, with the nearest
// one, and for incompatible sizes.
Model decoder(const std::string& name, DecoderOptions options = {});
std::vector<std::string> decoder_names();
// Returns `options` with a value in every optional.
DecoderOptions decoder_options(const std::string& name, DecoderOptions options = {});

// --- models/bert.cpp, models/bert_files.cpp: BERT (Devlin et al., 2019), an encoder of texts and
// its heads, as Hugging Face's BertModel, BertForMaskedLM, BertForSequenceClassification and
// BertForTokenClassification: same parameter names, initial distributions and results. Options
// have the names of Hugging Face's config.json, except `architecture` and `mask_padding`.
struct BertOptions {
  std::string architecture = "BertForMaskedLM";  // one of bert_architectures()
  int64_t vocab_size = 30522;
  int64_t hidden_size = 768;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t intermediate_size = 3072;               // of the MLP
  std::string hidden_act = "gelu";                // one of bert_activations()
  double hidden_dropout_prob = 0.1;               // of the embeddings' sum and after projections
  double attention_probs_dropout_prob = 0.1;      // of attention weights
  std::optional<double> classifier_dropout = {};  // before a classifier; hidden_dropout_prob
  int64_t max_position_embeddings = 512;          // the longest text, in tokens
  int64_t type_vocab_size = 2;
  double initializer_range = 0.02;
  double layer_norm_eps = 1e-12;
  int64_t pad_token_id = 0;                // its embedding starts at 0 and stays there; -1: none
  bool mask_padding = false;               // attention does not see pad_token_id
  bool add_pooling_layer = true;           // BertModel: return the pooled first token
  std::optional<int64_t> num_labels = {};  // outputs of a classifier: as many as labels, else 2
  std::vector<std::string> id2label = {};  // names of the labels
};

// Takes whole numbers, either token ids (n, tokens) or planes (n, 2 or 3, tokens):
//   0  token ids, below vocab_size
//   1  token types, below type_vocab_size: 0 in the first text of a pair, 1 in the second; without
//      this plane 0
//   2  1 for tokens that attention sees, 0 for padding; without this plane all, unless mask_padding
// Positions count from 0. Other positions, masks by pair of tokens and embeddings as input wait for
// models with named inputs. Padding under a pipeline and in ring_attn does so too, and throws.
//
// Returns logits (n, tokens, vocab_size) for BertForMaskedLM, (n, num_labels) for
// BertForSequenceClassification, (n, tokens, num_labels) for BertForTokenClassification; for
// BertModel the pooled first token (n, hidden_size), or features (n, tokens, hidden_size) without
// add_pooling_layer.
Model bert(BertOptions options = {});
std::vector<std::string> bert_architectures();
std::vector<std::string> bert_activations();
// Returns `options` with num_labels filled in. Throws for an unknown architecture or activation,
// with the nearest one, and for sizes that do not fit together.
BertOptions bert_options(BertOptions options = {});
// Returns texts, which may differ in length, as the three planes that a bert takes. `types` are the
// token types, of the same lengths; empty: 0.
Tensor bert_input(const std::vector<std::vector<int32_t>>& tokens,
                  const std::vector<std::vector<int32_t>>& types = {}, int32_t pad_token_id = 0);

// --- models/resnet.cpp: ResNet-20 for 32 x 32 images (He et al., 2016, section 4.2): three stages
// of three blocks with 16, 32 and 64 channels and shortcuts without parameters.
struct ResNetOptions {
  int64_t num_classes = 10;
  int64_t in_chans = 3;
};

// Makes a ResNet-20. It takes images (n, in_chans, height, width) of any size and returns logits
// (n, num_classes).
Model resnet20(const ResNetOptions& options = {});

// --- models/mlp.cpp: stacks of linear layers
struct MlpOptions {
  bool bias = true;
  bool flatten = false;  // first flatten samples of several dimensions, such as images
};

// Makes linear layers between the given sizes ({784, 256, 10} has two) with ReLU between them. The
// input may have any number of leading dimensions, unless it is flattened. Throws for fewer than
// two sizes.
Model mlp(const std::vector<int64_t>& sizes, const MlpOptions& options = {});
// Throws if mlp() would refuse these sizes.
void check_mlp_sizes(const std::vector<int64_t>& sizes);

}  // namespace booster::models

namespace booster {

// --- Generation of text, token by token, with a key/value cache:
//   auto texts = generate(model, {prompt}, {.max_new_tokens = 64, .sample = true, .seed = 1});

struct GenerateOptions {
  int64_t max_new_tokens = 128;
  bool sample = false;  // draw tokens; else take the most likely one
  // In the order in which they apply, as in transformers:
  double repetition_penalty = 1;  // divides positive scores of tokens in the text (Keskar et al.,
                                  // arXiv 1909.05858), multiplies negative ones; 1: none
  double temperature = 1;         // divides scores
  int64_t top_k = 0;  // only the k likeliest tokens, and those as likely as the last; 0: all
  double top_p = 1;   // only the likeliest whose probabilities reach p together (Holtzman et al.,
                      // arXiv 1904.09751), one at least
  uint64_t seed = 0;  // of the draws; the same seed gives the same text
  std::vector<int32_t> stop_tokens = {};  // a text ends with the first of these
  // Called for each new token of each text, in order; returns false to end the text. Where ranks
  // share a model, all call it, and the first one's answer counts.
  std::function<bool(size_t text, int32_t token)> on_token = {};
};

using TokenTexts = std::vector<std::vector<int32_t>>;

// Returns the new tokens of each prompt, without the prompt; a stop token is the last one. Puts the
// model, a gpt2 or decoder, into evaluation mode meanwhile. Throws for an empty prompt, and for
// options that make no sense. Draws use a random stream of their own. For a boosted model see
// booster/training/boosted.h.
TokenTexts generate(const Model& model, const TokenTexts& prompts,
                    const GenerateOptions& options = {});

}  // namespace booster
