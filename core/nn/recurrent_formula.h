// The formulae of recurrent cells, by which layers and cells run; for the files of this folder.
#pragma once

#include "core/autograd/op_policy.h"
#include "core/nn/sequence_layers.h"

#include <string>
#include <vector>

namespace booster {

// The weights of one layer in one direction; biases and the projection may be undefined.
struct RecurrentWeights {
  Tensor of_input, of_hidden, input_bias, hidden_bias, projection;
};

struct RecurrentFormula {
  using State = std::vector<Tensor>;
  Op layer_op, cell_op;  // their names for policies
  int64_t gates;
  size_t states;
  // Runs one step; `gates` is its input times the weights.
  State (*step)(const Tensor& gates, const State& state, const RecurrentWeights& weights);
};

extern const RecurrentFormula lstm_formula, gru_formula;
// Returns the formula of an RNN. Throws unless `nonlinearity` is tanh or relu.
const RecurrentFormula& rnn_formula(const char* kind, const std::string& nonlinearity);

}  // namespace booster
