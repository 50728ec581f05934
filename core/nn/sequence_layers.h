// Layers over sequences: recurrent ones, attention and Transformers, with the formulae, initial
// values and names of torch.nn, so that PyTorch's state dicts load unchanged. As in torch, x is
// (steps, batch, features), or (batch, steps, features) with batch_first, or (steps, features).
//
// Names of RNN, LSTM and GRU are weight_ih_l0 (gates hidden, in), weight_hh_l0, bias_ih_l0,
// bias_hh_l0, ...; weight_ih_l0_reverse ... for the other direction.
//
//   LSTM lstm(10, 20, {.num_layers = 2});
//   Tensor y = lstm(x);                                 // from a state of zeros
//   auto [output, state] = lstm(x, {h, c});             // as in PyTorch
//   auto [padded, last] = lstm(x, {}, lengths);         // as with a packed sequence
//
// `lengths` (batch) i64 holds the steps of each sequence, 1 to all, in any order. Output after a
// sequence's end is 0, its last state is its last step's, and the reverse pass begins there. The
// call reads them on the host, so it waits for a GPU.
#pragma once

#include "core/nn/layers.h"

namespace booster {

struct RecurrentOptions {
  int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;           // x is (batch, steps, in)
  double dropout = 0;                 // between layers, in training
  bool bidirectional = false;         // adds a pass from the last step back, and joins the features
  int64_t proj_size = 0;              // LSTM: h becomes weight_hr_l0 (proj_size, hidden) h; 0: not
  std::string nonlinearity = "tanh";  // RNN: or relu
};

struct RecurrentFormula;  // core/nn/recurrent_formula.h
struct RecurrentWeights;

// Base of RNN, LSTM and GRU: (steps, batch, in) to (steps, batch, hidden).
class Recurrent : public Module {
 public:
  using Options = RecurrentOptions;
  std::string options() const override;
  const int64_t input_size, hidden_size;
  struct Output {
    Tensor output, h;  // h: (layers times directions, batch, hidden)
  };
  using Module::operator();
  // Runs without the module's hooks and recomputation. Undefined states are zeros.
  Output operator()(const Tensor& x, const Tensor& h, const Tensor& lengths = {});

 protected:
  Recurrent(const char* kind, const RecurrentFormula& formula, int64_t in, int64_t hidden,
            const RecurrentOptions& options);
  // Returns the output, then the last states.
  std::vector<Tensor> run(const Tensor& x, std::vector<Tensor> states, const Tensor& lengths = {});

 private:
  Tensor forward(const Tensor& x) override { return run(x, {})[0]; }
  const RecurrentFormula& formula_;
  std::shared_ptr<std::vector<RecurrentWeights>> weights_;  // by layer, then direction
  RecurrentOptions options_;
};

// With r, z and n: h' = (1 - z) n + z h, n = tanh(x W_in^T + b_in + r (h W_hn^T + b_hn)).
struct GRU : Recurrent {
  GRU(int64_t in, int64_t hidden, const RecurrentOptions& options = {});
};
// h' = tanh(x W_ih^T + b_ih + h W_hh^T + b_hh), or relu of it
struct RNN : Recurrent {
  RNN(int64_t in, int64_t hidden, const RecurrentOptions& options = {});
};
struct LSTMState {
  Tensor h, c;  // (layers times directions, batch, hidden); undefined: zeros
};
// With i, f, g, o from x W_ih^T + b_ih + h W_hh^T + b_hh:
//   c' = sigmoid(f) c + sigmoid(i) tanh(g)
//   h' = sigmoid(o) tanh(c'), times the projection if there is one
struct LSTM : Recurrent {
  LSTM(int64_t in, int64_t hidden, const RecurrentOptions& options = {});
  struct Output {
    Tensor output;
    LSTMState state;
  };
  using Module::operator();
  Output operator()(const Tensor& x, const LSTMState& state, const Tensor& lengths = {});
};

// Base of the cells, which run one step: (batch, in) or (in) to h of the same form. Parameters
// weight_ih, weight_hh, bias_ih and bias_hh. Undefined states are zeros.
class RecurrentCell : public Module {
 public:
  std::string options() const override;
  using Module::operator();
  Tensor operator()(const Tensor& x, const Tensor& h) { return run(x, {h})[0]; }

 protected:
  RecurrentCell(const char* kind, const RecurrentFormula& formula, int64_t in, int64_t hidden,
                bool bias);
  std::vector<Tensor> run(const Tensor& x, std::vector<Tensor> state);

 private:
  Tensor forward(const Tensor& x) override { return run(x, {})[0]; }
  const RecurrentFormula& formula_;
  std::shared_ptr<RecurrentWeights> weights_;
};
struct LSTMCell : RecurrentCell {
  LSTMCell(int64_t in, int64_t hidden, bool bias = true);
  using Module::operator();
  LSTMState operator()(const Tensor& x, const LSTMState& state);
};
struct GRUCell : RecurrentCell {
  GRUCell(int64_t in, int64_t hidden, bool bias = true);
};
struct RNNCell : RecurrentCell {
  RNNCell(int64_t in, int64_t hidden, bool bias = true, const std::string& nonlinearity = "tanh");
};

// --- attention

struct MultiheadAttentionOptions {
  double dropout = 0;  // of the probabilities, in training
  bool bias = true;
  std::optional<int64_t> kdim = {}, vdim = {};  // features of keys and values; default: as queries
  bool batch_first = false;
  bool causal = false;  // in every call
};
// What queries do not see. As in torch.nn, and unlike attention()'s, a bool mask is true for hidden
// keys; a floating one is added to the scores.
struct AttentionMasks {
  Tensor key_padding = {};  // (batch, keys)
  Tensor attention = {};    // (queries, keys) or (batch heads, queries, keys)
  bool causal = false;      // query i sees keys 0 ... i
};
// Parameters in_proj_weight, or q_proj_weight, k_proj_weight and v_proj_weight with kdim or vdim;
// in_proj_bias, out_proj. Calling it with x alone computes self-attention.
class MultiheadAttention : public Module {
 public:
  using Options = MultiheadAttentionOptions;
  MultiheadAttention(int64_t features, int64_t heads, MultiheadAttentionOptions options = {});
  struct Output {
    Tensor output, weights;  // weights, if wanted: (batch, queries, keys), means of the heads
  };
  using Module::operator();
  // Calls with several tensors run without the module's hooks and recomputation.
  Output operator()(const Tensor& query, const Tensor& key, const Tensor& value,
                    const AttentionMasks& masks = {}, bool need_weights = false) const;
  std::string options() const override;
  const int64_t heads;
  const Tensor in_proj_weight, q_proj_weight, k_proj_weight, v_proj_weight, in_proj_bias;
  Linear& out_proj;

 private:
  Tensor forward(const Tensor& x) override;
  MultiheadAttentionOptions options_;
};

struct TransformerOptions {
  int64_t dim_feedforward = 2048;
  double dropout = 0.1;
  std::string activation = "relu";  // or gelu
  double layer_norm_eps = 1e-5;
  bool batch_first = false;
  bool norm_first = false;  // normalise what each part reads, not what it adds up to
  bool bias = true;
};
// Base of the encoder and its layer.
class EncoderPart : public Module {
 public:
  using Options = TransformerOptions;
  using Module::operator();
  Tensor operator()(const Tensor& x, const AttentionMasks& masks) { return run_(x, masks); }

 protected:
  using Module::Module;
  std::function<Tensor(const Tensor& x, const AttentionMasks& masks)> run_;

 private:
  Tensor forward(const Tensor& x) override { return run_(x, {}); }
};
// Base of the decoder and its layer. forward_named takes "target" and "memory".
class DecoderPart : public Module {
 public:
  using Options = TransformerOptions;
  using Module::operator();
  Tensor operator()(const Tensor& target, const Tensor& memory, const AttentionMasks& masks = {},
                    const AttentionMasks& memory_masks = {}) {
    return run_(target, memory, masks, memory_masks);
  }

 protected:
  using Module::Module;
  std::function<Tensor(const Tensor& target, const Tensor& memory, const AttentionMasks& masks,
                       const AttentionMasks& memory_masks)>
      run_;

 private:
  Tensors forward_named(const Tensors& x) override { return (*this)(x["target"], x["memory"]); }
};
// Parameters self_attn, multihead_attn (decoder), linear1, linear2, norm1, norm2 (norm3). Encoder
// and decoder run layers.0, layers.1 ... in sequence, and `norm` at the end if wanted.
struct TransformerEncoderLayer : EncoderPart {
  TransformerEncoderLayer(int64_t features, int64_t heads, const TransformerOptions& options = {});
};
struct TransformerDecoderLayer : DecoderPart {
  TransformerDecoderLayer(int64_t features, int64_t heads, const TransformerOptions& options = {});
};
struct TransformerEncoder : EncoderPart {
  TransformerEncoder(int64_t features, int64_t heads, int64_t layers,
                     const TransformerOptions& options = {}, bool norm = false);
};
struct TransformerDecoder : DecoderPart {
  TransformerDecoder(int64_t features, int64_t heads, int64_t layers,
                     const TransformerOptions& options = {}, bool norm = false);
};
// `encoder` of the source, then `decoder` of the target and the result. forward_named takes
// "source" and "target", and lets target i see targets 0 ... i.
class Transformer : public Module {
 public:
  Transformer(int64_t features = 512, int64_t heads = 8, int64_t encoder_layers = 6,
              int64_t decoder_layers = 6, const TransformerOptions& options = {});
  using Module::operator();
  Tensor operator()(const Tensor& source, const Tensor& target, const AttentionMasks& source_masks,
                    const AttentionMasks& target_masks, const AttentionMasks& memory_masks = {});
  TransformerEncoder& encoder;
  TransformerDecoder& decoder;

 private:
  Tensors forward_named(const Tensors& x) override;
};

}  // namespace booster
