#include "core/nn/recurrent.h"

#include "core/autograd/op_policy.h"
#include "core/nn/arguments.h"
#include "core/nn/functional.h"

#include <cmath>

namespace booster {
namespace {

void check_layer_sizes(const char* kind, int64_t in, int64_t hidden) {
  check(in > 0 && hidden > 0, "{}: sizes must be positive; got {} in, {} hidden", kind, in, hidden);
}

// Initialises all weights of a layer in +-1 / sqrt(hidden).
void init_weights(const RecurrentWeights& weights, int64_t hidden) {
  const double bound = 1 / std::sqrt(static_cast<double>(hidden));
  for (const Tensor& x :
       {weights.of_input, weights.of_hidden, weights.input_bias, weights.hidden_bias})
    if (x.defined()) init::uniform(x, -bound, bound);
}

// Casts input, states and weights to one dtype by the policy, as in torch's fused layers. A policy
// that lists only the products casts inside them, and does not cast the state.
void cast_all(Op op, Tensor& x, std::vector<Tensor>& state,
              std::vector<RecurrentWeights>& weights) {
  std::vector<Tensor> all = {x};
  all.insert(all.end(), state.begin(), state.end());
  for (const RecurrentWeights& w : weights)
    all.insert(all.end(), {w.of_input, w.of_hidden, w.input_bias, w.hidden_bias});
  apply_policy(op, all);
  auto next = all.begin();
  x = *next++;
  for (Tensor& s : state) s = *next++;
  for (RecurrentWeights& w : weights)
    for (Tensor* tensor : {&w.of_input, &w.of_hidden, &w.input_bias, &w.hidden_bias})
      *tensor = *next++;
}

Tensor zero_state(const Shape& shape, const Tensor& x) {
  return zeros(shape, {x.dtype(), x.device()});
}

LSTMState lstm_step(const Tensor& gates, const LSTMState& state, const RecurrentWeights& weights) {
  const auto parts = chunk(gates + linear(state.h, weights.of_hidden, weights.hidden_bias), 4, -1);
  const Tensor c = sigmoid(parts[1]) * state.c + sigmoid(parts[0]) * tanh(parts[2]);
  return {sigmoid(parts[3]) * tanh(c), c};
}

}  // namespace

Recurrent::Recurrent(const char* kind, Op op, int64_t gates, int64_t states, int64_t in,
                     int64_t hidden, const RecurrentOptions& options)
    : Module(kind),
      input_size(in),
      hidden_size(hidden),
      op_(op),
      states_(static_cast<size_t>(states)),
      options_(options) {
  check_layer_sizes(kind, in, hidden);
  check(options.num_layers >= 1, "{}: too few layers; got {}, want at least one", kind,
        options.num_layers);
  arguments::probability(kind, "dropout", options.dropout);
  const int64_t rows = gates * hidden;
  for (int64_t layer = 0; layer < options.num_layers; ++layer)
    for (int64_t direction = 0; direction < directions(); ++direction) {
      const std::string end = fmt::format("_l{}{}", layer, direction ? "_reverse" : "");
      const int64_t width = layer == 0 ? in : hidden * directions();
      const auto bias = [&] { return options.bias ? empty({rows}) : Tensor(); };
      weights_.push_back({add_parameter("weight_ih" + end, empty({rows, width})),
                          add_parameter("weight_hh" + end, empty({rows, hidden})),
                          add_parameter("bias_ih" + end, bias()),
                          add_parameter("bias_hh" + end, bias())});
      init_weights(weights_.back(), hidden);
    }
}

std::string Recurrent::options() const {
  return fmt::format("{}, {}, num_layers={}, batch_first={}, bidirectional={}", input_size,
                     hidden_size, options_.num_layers, options_.batch_first,
                     options_.bidirectional);
}

Recurrent::State Recurrent::checked_state(const State& given, const Shape& shape,
                                          const Tensor& x) const {
  State state = given;
  state.resize(states_);
  for (Tensor& s : state) {
    if (!s.defined()) s = zero_state(shape, x);
    check(s.shape() == shape, "{}: the state has the wrong shape; got {}, want {}", kind(),
          s.shape(), shape);
  }
  return state;
}

Tensor Recurrent::run_direction(const Tensor& x, State& state, const RecurrentWeights& weights,
                                bool reverse) {
  const std::vector<Tensor> gates = unbind(linear(x, weights.of_input, weights.input_bias), 0);
  std::vector<Tensor> outputs(gates.size());
  for (size_t i = 0; i < gates.size(); ++i) {
    const size_t t = reverse ? gates.size() - 1 - i : i;
    state = step(gates[t], state, weights);
    outputs[t] = state[0];
  }
  return stack(outputs, 0);
}

Recurrent::Result Recurrent::run_layers(const Tensor& x, const State& initial,
                                        const std::vector<RecurrentWeights>& weights) {
  Tensor y = x;
  std::vector<State> last(states_);
  for (int64_t layer = 0; layer < options_.num_layers; ++layer) {
    std::vector<Tensor> passes;
    for (int64_t direction = 0; direction < directions(); ++direction) {
      const int64_t i = layer * directions() + direction;
      State state;
      for (const Tensor& of_all : initial) state.push_back(select(of_all, 0, i));
      passes.push_back(run_direction(y, state, weights[static_cast<size_t>(i)], direction == 1));
      for (size_t s = 0; s < states_; ++s) last[s].push_back(state[s]);
    }
    y = passes.size() == 1 ? passes[0] : cat(passes, 2);
    if (layer + 1 < options_.num_layers) y = dropout(y, options_.dropout, training());
  }
  Result result{y, {}};
  for (const State& of_one : last) result.state.push_back(stack(of_one, 0));
  return result;
}

Recurrent::Result Recurrent::run(const Tensor& given, State initial) {
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
    for (Tensor& s : initial)
      if (s.defined()) s = unsqueeze(s, 1);
  const Shape shape = {options_.num_layers * directions(), x.size(1), hidden_size};
  initial = checked_state(initial, shape, x);
  std::vector<RecurrentWeights> weights = weights_;
  cast_all(op_, x, initial, weights);
  Result result = run_layers(x, initial, weights);
  if (turned) result.output = transpose(result.output, 0, 1);
  if (batched) return result;
  result.output = squeeze(result.output, 1);
  for (Tensor& s : result.state) s = squeeze(s, 1);
  return result;
}

LSTM::Output LSTM::operator()(const Tensor& x, const LSTMState& state) {
  const Result result = run(x, {state.h, state.c});
  return {result.output, {result.state[0], result.state[1]}};
}

Recurrent::State LSTM::step(const Tensor& gates, const State& state,
                            const RecurrentWeights& weights) {
  const LSTMState next = lstm_step(gates, {state[0], state[1]}, weights);
  return {next.h, next.c};
}

GRU::Output GRU::operator()(const Tensor& x, const Tensor& h) {
  const Result result = run(x, {h});
  return {result.output, result.state[0]};
}

Recurrent::State GRU::step(const Tensor& gates, const State& state,
                           const RecurrentWeights& weights) {
  const Tensor& h = state[0];
  const auto of_x = chunk(gates, 3, -1);
  const auto of_h = chunk(linear(h, weights.of_hidden, weights.hidden_bias), 3, -1);
  const Tensor reset = sigmoid(of_x[0] + of_h[0]), kept = sigmoid(of_x[1] + of_h[1]);
  const Tensor fresh = tanh(of_x[2] + reset * of_h[2]);
  return {fresh + kept * (h - fresh)};
}

LSTMCell::LSTMCell(int64_t in, int64_t hidden, bool bias)
    : Module("LSTMCell"),
      weights_{add_parameter("weight_ih", empty({4 * hidden, in})),
               add_parameter("weight_hh", empty({4 * hidden, hidden})),
               add_parameter("bias_ih", bias ? empty({4 * hidden}) : Tensor()),
               add_parameter("bias_hh", bias ? empty({4 * hidden}) : Tensor())} {
  check_layer_sizes("LSTMCell", in, hidden);
  init_weights(weights_, hidden);
}

std::string LSTMCell::options() const {
  return fmt::format("{}, {}, bias={}", weights_.of_input.size(1), weights_.of_hidden.size(1),
                     weights_.input_bias.defined());
}

LSTMState LSTMCell::operator()(const Tensor& given, const LSTMState& state) {
  arguments::floating("LSTMCell", "x", given);
  check((given.ndim() == 1 || given.ndim() == 2) && given.size(-1) == weights_.of_input.size(1),
        "LSTMCell: x has the wrong shape; got {}, want (batch, {}) or ({})", given.shape(),
        weights_.of_input.size(1), weights_.of_input.size(1));
  Shape shape = given.shape();
  shape[shape.ndim() - 1] = weights_.of_hidden.size(1);
  std::vector<Tensor> both = {state.h, state.c};
  for (Tensor& s : both) {
    if (!s.defined()) s = zero_state(shape, given);
    check(s.shape() == shape, "LSTMCell: the state has the wrong shape; got {}, want {}", s.shape(),
          shape);
  }
  Tensor x = given;
  std::vector<RecurrentWeights> weights = {weights_};
  cast_all(Op::lstm_cell, x, both, weights);
  const Tensor gates = linear(x, weights[0].of_input, weights[0].input_bias);
  return lstm_step(gates, {both[0], both[1]}, weights[0]);
}

}  // namespace booster
