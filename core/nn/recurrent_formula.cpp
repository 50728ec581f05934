#include "core/nn/recurrent_formula.h"

#include "core/nn/functional.h"
#include "platform/error.h"

namespace booster {
namespace {

using State = RecurrentFormula::State;

Tensor hidden_gates(const Tensor& h, const RecurrentWeights& weights) {
  return linear(h, weights.of_hidden, weights.hidden_bias);
}

State lstm_step(const Tensor& gates, const State& state, const RecurrentWeights& weights) {
  const auto parts = chunk(gates + hidden_gates(state[0], weights), 4, -1);
  const Tensor c = sigmoid(parts[1]) * state[1] + sigmoid(parts[0]) * tanh(parts[2]);
  const Tensor h = sigmoid(parts[3]) * tanh(c);
  return {weights.projection.defined() ? linear(h, weights.projection) : h, c};
}

State gru_step(const Tensor& gates, const State& state, const RecurrentWeights& weights) {
  const Tensor& h = state[0];
  const auto of_x = chunk(gates, 3, -1);
  const auto of_h = chunk(hidden_gates(h, weights), 3, -1);
  const Tensor reset = sigmoid(of_x[0] + of_h[0]), kept = sigmoid(of_x[1] + of_h[1]);
  const Tensor fresh = tanh(of_x[2] + reset * of_h[2]);
  return {fresh + kept * (h - fresh)};
}

State tanh_step(const Tensor& gates, const State& state, const RecurrentWeights& weights) {
  return {tanh(gates + hidden_gates(state[0], weights))};
}

State relu_step(const Tensor& gates, const State& state, const RecurrentWeights& weights) {
  return {relu(gates + hidden_gates(state[0], weights))};
}

}  // namespace

const RecurrentFormula lstm_formula = {Op::lstm, Op::lstm_cell, 4, 2, lstm_step};
const RecurrentFormula gru_formula = {Op::gru, Op::gru_cell, 3, 1, gru_step};

const RecurrentFormula& rnn_formula(const char* kind, const std::string& nonlinearity) {
  static const RecurrentFormula of_tanh = {Op::rnn, Op::rnn_cell, 1, 1, tanh_step};
  static const RecurrentFormula of_relu = {Op::rnn, Op::rnn_cell, 1, 1, relu_step};
  check(nonlinearity == "tanh" || nonlinearity == "relu",
        "{}: unknown nonlinearity; got {}, want tanh or relu", kind, nonlinearity);
  return nonlinearity == "tanh" ? of_tanh : of_relu;
}

}  // namespace booster
