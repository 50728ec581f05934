// Recurrent layers with the formulae and names of torch.nn.LSTM, GRU and LSTMCell, so that
// PyTorch's state dicts load unchanged. The names are weight_ih_l0 (gates hidden, in),
// weight_hh_l0, bias_ih_l0, bias_hh_l0, ...; weight_ih_l0_reverse ... for the other direction.
// Initial values are uniform in +-1 / sqrt(hidden).
//
//   LSTM lstm(10, 20, {.num_layers = 2});
//   Tensor y = lstm(x);                        // from a state of zeros
//   auto [output, state] = lstm(x, {h, c});    // as in PyTorch
#pragma once

#include "core/autograd/op_policy.h"
#include "core/nn/functional.h"
#include "core/nn/module.h"

namespace booster {

struct RecurrentOptions {
  int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;    // x is (batch, steps, in)
  double dropout = 0;          // between layers, in training
  bool bidirectional = false;  // adds a pass from the last step back; features of both are joined
};

// The weights of one layer in one direction; biases may be undefined.
struct RecurrentWeights {
  Tensor of_input, of_hidden, input_bias, hidden_bias;
};

// Base of LSTM and GRU.
class Recurrent : public Module {
 public:
  using Options = RecurrentOptions;
  std::string options() const override;
  const int64_t input_size, hidden_size;

 protected:
  // State that a cell passes from step to step, (batch, hidden) each; the hidden values come first.
  using State = std::vector<Tensor>;

  Recurrent(const char* kind, Op op, int64_t gates, int64_t states, int64_t in, int64_t hidden,
            const RecurrentOptions& options);
  struct Result {
    Tensor output;
    State state;  // (layers times directions, batch, hidden) each
  };
  // Runs all layers. Undefined states are zeros.
  Result run(const Tensor& x, State initial);

 private:
  // Runs one step of a cell; `gates` is its input times the weights.
  virtual State step(const Tensor& gates, const State& state, const RecurrentWeights& weights) = 0;
  // Runs all steps (steps, batch, in) of one layer in one direction. `state` becomes the last
  // step's.
  Tensor run_direction(const Tensor& x, State& state, const RecurrentWeights& weights,
                       bool reverse);
  Result run_layers(const Tensor& x, const State& initial,
                    const std::vector<RecurrentWeights>& weights);
  State checked_state(const State& given, const Shape& shape, const Tensor& x) const;
  int64_t directions() const { return options_.bidirectional ? 2 : 1; }

  Op op_;
  size_t states_;
  std::vector<RecurrentWeights> weights_;  // by layer, then direction
  RecurrentOptions options_;
};

struct LSTMState {
  Tensor h, c;  // (layers times directions, batch, hidden); undefined: zeros
};

// (steps, batch, in) to (steps, batch, hidden), or (steps, in) without a batch. With i, f, g, o
// from x W_ih^T + b_ih + h W_hh^T + b_hh:
//   c' = sigmoid(f) c + sigmoid(i) tanh(g)
//   h' = sigmoid(o) tanh(c')
class LSTM : public Recurrent {
 public:
  LSTM(int64_t in, int64_t hidden, const RecurrentOptions& options = {})
      : Recurrent("LSTM", Op::lstm, 4, 2, in, hidden, options) {}
  struct Output {
    Tensor output;
    LSTMState state;
  };
  using Module::operator();
  // Runs the layer without the module's hooks and recomputation.
  Output operator()(const Tensor& x, const LSTMState& state);

 private:
  Tensor forward(const Tensor& x) override { return run(x, {}).output; }
  State step(const Tensor& gates, const State& state, const RecurrentWeights& weights) override;
};

// As LSTM, with r, z and n: h' = (1 - z) n + z h, n = tanh(x W_in^T + b_in + r (h W_hn^T + b_hn)).
class GRU : public Recurrent {
 public:
  GRU(int64_t in, int64_t hidden, const RecurrentOptions& options = {})
      : Recurrent("GRU", Op::gru, 3, 1, in, hidden, options) {}
  struct Output {
    Tensor output, h;
  };
  using Module::operator();
  Output operator()(const Tensor& x, const Tensor& h);

 private:
  Tensor forward(const Tensor& x) override { return run(x, {}).output; }
  State step(const Tensor& gates, const State& state, const RecurrentWeights& weights) override;
};

// One step of an LSTM: (batch, in) or (in) to h of the same form. Parameters weight_ih, weight_hh,
// bias_ih and bias_hh.
class LSTMCell : public Module {
 public:
  LSTMCell(int64_t in, int64_t hidden, bool bias = true);
  std::string options() const override;
  using Module::operator();
  // Runs one step. The state's h and c are (batch, hidden); undefined ones are zeros.
  LSTMState operator()(const Tensor& x, const LSTMState& state);

 private:
  Tensor forward(const Tensor& x) override { return (*this)(x, {}).h; }
  RecurrentWeights weights_;
};

}  // namespace booster
