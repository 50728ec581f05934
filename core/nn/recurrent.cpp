#include "core/nn/sequence_layers.h"

#include "core/autograd/op_policy.h"
#include "core/nn/arguments.h"
#include "core/nn/functional.h"
#include "core/nn/recurrent_formula.h"
#include "core/nn/recurrent_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace booster {
namespace {

using State = RecurrentFormula::State;

void check_layer_sizes(const char* kind, int64_t in, int64_t hidden) {
  check(in > 0 && hidden > 0, "{}: sizes must be positive; got {} in, {} hidden", kind, in, hidden);
}

std::vector<Tensor*> all_of(RecurrentWeights& w) {
  return {&w.of_input, &w.of_hidden, &w.input_bias, &w.hidden_bias, &w.projection};
}

// Initialises all weights of a layer in +-1 / sqrt(hidden).
void init_weights(RecurrentWeights weights, int64_t hidden) {
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  for (const Tensor* x : all_of(weights))
    if (x->defined()) init::uniform(*x, -bound, bound);
}

// Casts input, states and weights to one dtype by the policy, as in torch's fused layers. A policy
// that lists only the products casts inside them, and does not cast the state.
void cast_all(Op op, Tensor& x, State& state, std::vector<RecurrentWeights>& weights) {
  std::vector<Tensor*> places = {&x};
  for (Tensor& s : state) places.push_back(&s);
  for (RecurrentWeights& w : weights)
    for (Tensor* tensor : all_of(w)) places.push_back(tensor);
  std::vector<Tensor> all;
  for (const Tensor* place : places) all.push_back(*place);
  apply_policy(op, all);
  for (size_t i = 0; i < all.size(); ++i) *places[i] = all[i];
}

Tensor zero_state(const Shape& shape, const Tensor& x) {
  return zeros(shape, {x.dtype(), x.device()});
}

// Steps of sequences of different lengths.
class Lengths {
 public:
  Lengths() = default;
  // Undefined lengths: every sequence has all steps.
  Lengths(const char* kind, const Tensor& lengths, int64_t steps, int64_t batch, Device device)
      : shortest_(steps) {
    if (!lengths.defined()) return;
    check(lengths.dtype() == DType::i64 && lengths.shape() == Shape{batch},
          "{}: lengths do not fit; got {} of {}, want ({},) of i64", kind, lengths.shape(),
          name_of(lengths.dtype()), batch);
    for (const int64_t length : lengths.to_vector<int64_t>()) {
      check(length >= 1 && length <= steps, "{}: a length is out of range; got {}, want 1 to {}",
            kind, length, steps);
      shortest_ = std::min(shortest_, length);
    }
    column_ = unsqueeze(lengths.to(device), 1);
  }
  bool are_whole() const { return !column_.defined(); }
  // Returns `now` in sequences that have step t, else `before`.
  Tensor chosen(int64_t t, const Tensor& now, const Tensor& before) const {
    return t < shortest_ ? now : where(greater(column_, static_cast<double>(t)), now, before);
  }
  Tensor output(int64_t t, const Tensor& h) const {
    return t < shortest_ ? h : chosen(t, h, zeros_like(h));
  }

 private:
  Tensor column_ = {};
  int64_t shortest_ = std::numeric_limits<int64_t>::max();
};

// Runs all steps as separate calls. `state` becomes the last step's.
Tensor run_composed(const RecurrentFormula& formula, const Tensor& of_input, State& state,
                    const RecurrentWeights& weights, StepOrder order, const Lengths& lengths) {
  const std::vector<Tensor> gates = unbind(of_input, 0);
  std::vector<Tensor> outputs(gates.size());
  for (int64_t i = 0; i < order.steps; ++i) {
    const int64_t t = order.at(i);
    const State next = formula.step(gates[static_cast<size_t>(t)], state, weights);
    for (size_t s = 0; s < state.size(); ++s) state[s] = lengths.chosen(t, next[s], state[s]);
    outputs[static_cast<size_t>(t)] = lengths.output(t, state[0]);
  }
  return stack(outputs, 0);
}

// The same for whole sequences: returns the outputs, then the last states.
std::vector<Tensor> composed_results(const RecurrentFormula& formula, const Tensor& gates,
                                     const State& first, const RecurrentWeights& weights,
                                     StepOrder order) {
  State state = first;
  std::vector<Tensor> results = {run_composed(formula, gates, state, weights, order, {})};
  results.insert(results.end(), state.begin(), state.end());
  return results;
}

// Runs all steps (steps, batch, in) of one layer in one direction. `state` becomes the last step's.
Tensor run_direction(const RecurrentFormula& formula, const Tensor& x, State& state,
                     const RecurrentWeights& weights, StepOrder order, const Lengths& lengths) {
  const Tensor gates = linear(x, weights.of_input, weights.input_bias);
  if (!lengths.are_whole() || !runs_as_one(gates, weights))
    return run_composed(formula, gates, state, weights, order, lengths);
  return run_as_one(formula, gates, state, weights, order, composed_results);
}

int64_t directions_of(const RecurrentOptions& options) { return options.bidirectional ? 2 : 1; }

// Returns the states before the first step, (layers times directions, batch, hidden) each.
State checked_states(const Recurrent& layer, const RecurrentFormula& formula,
                     const RecurrentOptions& options, State states, const Tensor& x) {
  states.resize(formula.states);
  const int64_t out = options.proj_size > 0 ? options.proj_size : layer.hidden_size;
  for (size_t i = 0; i < states.size(); ++i) {
    const Shape shape = {options.num_layers * directions_of(options), x.size(1),
                         i == 0 ? out : layer.hidden_size};
    if (!states[i].defined()) states[i] = zero_state(shape, x);
    check(states[i].shape() == shape, "{}: the state has the wrong shape; got {}, want {}",
          layer.kind(), states[i].shape(), shape);
  }
  return states;
}

// Runs all layers on x (steps, batch, in). Returns the output, then the last states.
std::vector<Tensor> run_layers(const Recurrent& layer, const RecurrentFormula& formula,
                               const RecurrentOptions& options,
                               const std::vector<RecurrentWeights>& weights, const Tensor& x,
                               const State& initial, const Tensor& given_lengths) {
  const Lengths lengths(layer.kind().c_str(), given_lengths, x.size(0), x.size(1), x.device());
  Tensor y = x;
  std::vector<State> last(formula.states);
  for (int64_t depth = 0; depth < options.num_layers; ++depth) {
    std::vector<Tensor> passes;
    for (int64_t direction = 0; direction < directions_of(options); ++direction) {
      const int64_t i = depth * directions_of(options) + direction;
      State state;
      for (const Tensor& of_all : initial) state.push_back(select(of_all, 0, i));
      passes.push_back(run_direction(formula, y, state, weights[static_cast<size_t>(i)],
                                     {x.size(0), direction == 1}, lengths));
      for (size_t s = 0; s < last.size(); ++s) last[s].push_back(state[s]);
    }
    y = passes.size() == 1 ? passes[0] : cat(passes, 2);
    if (depth + 1 < options.num_layers) y = dropout(y, options.dropout, layer.training());
  }
  std::vector<Tensor> results = {y};
  for (const State& of_one : last) results.push_back(stack(of_one, 0));
  return results;
}

}  // namespace

Recurrent::Recurrent(const char* kind, const RecurrentFormula& formula, int64_t in, int64_t hidden,
                     const RecurrentOptions& options)
    : Module(kind),
      input_size(in),
      hidden_size(hidden),
      formula_(formula),
      weights_(std::make_shared<std::vector<RecurrentWeights>>()),
      options_(options) {
  check_layer_sizes(kind, in, hidden);
  check(options.num_layers >= 1, "{}: too few layers; got {}, want at least one", kind,
        options.num_layers);
  check(options.proj_size == 0 || &formula == &lstm_formula,
        "{}: proj_size is an option of LSTM only; got {}, want 0", kind, options.proj_size);
  check(options.proj_size >= 0 && options.proj_size < hidden,
        "{}: proj_size is out of range; got {}, want 0 to {}", kind, options.proj_size, hidden - 1);
  check(options.nonlinearity == "tanh" || formula.layer_op == Op::rnn,
        "{}: nonlinearity is an option of RNN only; got {}", kind, options.nonlinearity);
  arguments::probability(kind, "dropout", options.dropout);
  const int64_t rows = formula.gates * hidden;
  const int64_t out = options.proj_size > 0 ? options.proj_size : hidden;
  for (int64_t layer = 0; layer < options.num_layers; ++layer)
    for (int64_t direction = 0; direction < directions_of(options); ++direction) {
      const std::string end = fmt::format("_l{}{}", layer, direction ? "_reverse" : "");
      const int64_t width = layer == 0 ? in : out * directions_of(options);
      const auto bias = [&] { return options.bias ? empty({rows}) : Tensor(); };
      const Tensor projection = options.proj_size > 0 ? empty({out, hidden}) : Tensor();
      weights_->push_back({add_parameter("weight_ih" + end, empty({rows, width})),
                           add_parameter("weight_hh" + end, empty({rows, out})),
                           add_parameter("bias_ih" + end, bias()),
                           add_parameter("bias_hh" + end, bias()),
                           add_parameter("weight_hr" + end, projection)});
      init_weights(weights_->back(), hidden);
    }
}

std::string Recurrent::options() const {
  std::string text =
      fmt::format("{}, {}, num_layers={}, batch_first={}, bidirectional={}", input_size,
                  hidden_size, options_.num_layers, options_.batch_first, options_.bidirectional);
  if (options_.proj_size > 0) text += fmt::format(", proj_size={}", options_.proj_size);
  if (options_.nonlinearity != "tanh") text += ", nonlinearity=" + options_.nonlinearity;
  return text;
}

std::vector<Tensor> Recurrent::run(const Tensor& given, std::vector<Tensor> states,
                                   const Tensor& lengths) {
  arguments::floating(kind().c_str(), "x", given);
  const bool batched = given.ndim() == 3;
  check((batched || given.ndim() == 2) && given.size(-1) == input_size,
        "{}: x has the wrong shape; got {}, want ({}, {}) or without batch", kind(), given.shape(),
        options_.batch_first ? "batch, steps" : "steps, batch", input_size);
  Tensor x = batched ? given : unsqueeze(given, 1);
  const bool turned = batched && options_.batch_first;
  if (turned) x = transpose(x, 0, 1);
  check(x.size(0) > 0, "{}: too few steps; got {}, want at least one", kind(), given.shape());
  if (!batched)
    for (Tensor& s : states)
      if (s.defined()) s = unsqueeze(s, 1);
  states = checked_states(*this, formula_, options_, std::move(states), x);
  std::vector<RecurrentWeights> weights = *weights_;
  cast_all(formula_.layer_op, x, states, weights);
  std::vector<Tensor> results = run_layers(*this, formula_, options_, weights, x, states, lengths);
  if (turned) results[0] = transpose(results[0], 0, 1);
  if (!batched)
    for (Tensor& result : results) result = squeeze(result, 1);
  return results;
}

LSTM::LSTM(int64_t in, int64_t hidden, const RecurrentOptions& options)
    : Recurrent("LSTM", lstm_formula, in, hidden, options) {}
LSTM::Output LSTM::operator()(const Tensor& x, const LSTMState& state, const Tensor& lengths) {
  const std::vector<Tensor> results = run(x, {state.h, state.c}, lengths);
  return {results[0], {results[1], results[2]}};
}

Recurrent::Output Recurrent::operator()(const Tensor& x, const Tensor& h, const Tensor& lengths) {
  const std::vector<Tensor> results = run(x, {h}, lengths);
  return {results[0], results[1]};
}
GRU::GRU(int64_t in, int64_t hidden, const RecurrentOptions& options)
    : Recurrent("GRU", gru_formula, in, hidden, options) {}
RNN::RNN(int64_t in, int64_t hidden, const RecurrentOptions& options)
    : Recurrent("RNN", rnn_formula("RNN", options.nonlinearity), in, hidden, options) {}

RecurrentCell::RecurrentCell(const char* kind, const RecurrentFormula& formula, int64_t in,
                             int64_t hidden, bool bias)
    : Module(kind),
      formula_(formula),
      weights_(std::make_shared<RecurrentWeights>(RecurrentWeights{
          add_parameter("weight_ih", empty({formula.gates * hidden, in})),
          add_parameter("weight_hh", empty({formula.gates * hidden, hidden})),
          add_parameter("bias_ih", bias ? empty({formula.gates * hidden}) : Tensor()),
          add_parameter("bias_hh", bias ? empty({formula.gates * hidden}) : Tensor()),
          {}})) {
  check_layer_sizes(kind, in, hidden);
  init_weights(*weights_, hidden);
}

std::string RecurrentCell::options() const {
  return fmt::format("{}, {}, bias={}", weights_->of_input.size(1), weights_->of_hidden.size(1),
                     weights_->input_bias.defined());
}

std::vector<Tensor> RecurrentCell::run(const Tensor& given, std::vector<Tensor> state) {
  arguments::floating(kind().c_str(), "x", given);
  check((given.ndim() == 1 || given.ndim() == 2) && given.size(-1) == weights_->of_input.size(1),
        "{}: x has the wrong shape; got {}, want (batch, {}) or ({})", kind(), given.shape(),
        weights_->of_input.size(1), weights_->of_input.size(1));
  Shape shape = given.shape();
  shape[shape.ndim() - 1] = weights_->of_hidden.size(1);
  state.resize(formula_.states);
  for (Tensor& s : state) {
    if (!s.defined()) s = zero_state(shape, given);
    check(s.shape() == shape, "{}: the state has the wrong shape; got {}, want {}", kind(),
          s.shape(), shape);
  }
  Tensor x = given;
  std::vector<RecurrentWeights> weights = {*weights_};
  cast_all(formula_.cell_op, x, state, weights);
  return formula_.step(linear(x, weights[0].of_input, weights[0].input_bias), state, weights[0]);
}

LSTMCell::LSTMCell(int64_t in, int64_t hidden, bool bias)
    : RecurrentCell("LSTMCell", lstm_formula, in, hidden, bias) {}
LSTMState LSTMCell::operator()(const Tensor& x, const LSTMState& state) {
  const std::vector<Tensor> next = run(x, {state.h, state.c});
  return {next[0], next[1]};
}
GRUCell::GRUCell(int64_t in, int64_t hidden, bool bias)
    : RecurrentCell("GRUCell", gru_formula, in, hidden, bias) {}
RNNCell::RNNCell(int64_t in, int64_t hidden, bool bias, const std::string& nonlinearity)
    : RecurrentCell("RNNCell", rnn_formula("RNNCell", nonlinearity), in, hidden, bias) {}

}  // namespace booster
