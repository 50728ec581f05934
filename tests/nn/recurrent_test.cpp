// RNN, LSTM, GRU and their cells against PyTorch's values (tests/golden/nn/recurrent.json).
#include "core/nn/sequence_layers.h"

#include "core/autograd/op_policy.h"
#include "core/autograd/tape.h"
#include "tests/capture_part.h"
#include "tests/draws.h"
#include "tests/nn/golden.h"
#include "tests/on_gpu.h"

#include <doctest/doctest.h>

#include <random>

using namespace booster;
using namespace booster::testing;

namespace {

Tensor leaf(const Shape& shape, uint32_t seed, DType dtype, Device device) {
  return untracked::cast(hashed(shape, seed), dtype).to(device).requires_grad_();
}

bool has(const std::string& name, const char* part) { return name.find(part) != std::string::npos; }

Model cell_of(const std::string& name) {
  const bool bias = !has(name, "one");
  if (has(name, "lstm")) return LSTMCell(3, 4, bias);
  if (has(name, "gru")) return GRUCell(3, 4, bias);
  return RNNCell(3, 4, bias, has(name, "relu") ? "relu" : "tanh");
}

// Returns the layer of a case, with parameters as in make_nn.py.
Model layer_of(const std::string& name, DType dtype, Device device) {
  RecurrentOptions options;
  if (has(name, "relu")) options.nonlinearity = "relu";
  if (has(name, "projected")) options.proj_size = 2;
  if (has(name, "two_ways")) {
    options.num_layers = 2;
    options.bidirectional = true;
  }
  if (has(name, "batch_first")) {
    options.bias = false;
    options.batch_first = true;
  }
  Model layer = has(name, "cell")          ? cell_of(name)
                : name.starts_with("lstm") ? Model(LSTM(3, 4, options))
                : name.starts_with("gru")  ? Model(GRU(3, 4, options))
                                           : Model(RNN(3, 4, options));
  layer->to(dtype);
  layer->to(device);
  const NoGradGuard no_grad;
  uint32_t seed = 0;
  for (const auto& [parameter, x] : layer.parameters())
    Tensor(x).copy_(hashed(x.shape(), seed++)).mul_(0.7);
  return layer;
}

// Returns output and last states; a cell's output is its h.
std::vector<Tensor> run(Module& layer, const Tensor& x, const std::vector<Tensor>& states,
                        const Tensor& lengths = {}) {
  const LSTMState state = states.size() == 2 ? LSTMState{states[0], states[1]} : LSTMState{};
  const Tensor only = states.empty() ? Tensor() : states[0];
  if (auto* cell = dynamic_cast<LSTMCell*>(&layer)) {
    const LSTMState next = (*cell)(x, state);
    return {next.h, next.h, next.c};
  }
  if (auto* lstm = dynamic_cast<LSTM*>(&layer)) {
    const auto [output, next] = (*lstm)(x, state, lengths);
    return {output, next.h, next.c};
  }
  if (auto* cell = dynamic_cast<GRUCell*>(&layer)) return std::vector(2, (*cell)(x, only));
  if (auto* cell = dynamic_cast<RNNCell*>(&layer)) return std::vector(2, (*cell)(x, only));
  const auto [output, h] = dynamic_cast<Recurrent&>(layer)(x, only, lengths);
  return {output, h};
}

Tensor lengths_of(const Json& one, Device device) {
  const auto lengths = one["lengths"].get<std::vector<int64_t>>();
  if (lengths.empty()) return {};
  return from_vector(lengths, {static_cast<int64_t>(lengths.size())}).to(device);
}

void check_numbers(const Tensor& got, const Json& want, double tolerance) {
  REQUIRE(got.defined());
  CHECK(largest_error(got.to_vector<double>(), want) < tolerance);
}

void check_recurrent_numbers(Device device) {
  const Json cases = read_golden("recurrent.json");
  CHECK(cases.size() >= 27);
  for (const Json& one : cases)
    for (const DType dtype : {DType::f32, DType::f64}) {
      const std::string name = one["name"];
      CAPTURE(name);
      CAPTURE(std::string(name_of(dtype)));
      const double tolerance = dtype == DType::f32 ? 3e-6 : 2e-7;  // golden values have 9 digits
      const Model layer = layer_of(name, dtype, device);
      const Tensor x = leaf(shape_of(one["x"]), 50, dtype, device);
      std::vector<Tensor> states;
      for (const Json& shape : one["states"])
        states.push_back(
            leaf(shape_of(shape), 51 + static_cast<uint32_t>(states.size()), dtype, device));
      const std::vector<Tensor> results = run(layer.module(), x, states, lengths_of(one, device));
      REQUIRE(results.size() == one["results"].size());
      Tensor total = zeros({}, {dtype, device});
      for (size_t i = 0; i < results.size(); ++i) {
        check_numbers(results[i], one["results"][i], tolerance);
        const Tensor weights = hashed(results[i].shape(), 90 + static_cast<uint32_t>(i));
        total = total + sum(results[i] * untracked::cast(weights, dtype).to(device));
      }
      total.backward();
      check_numbers(x.grad(), one["dx"], 2 * tolerance);
      for (size_t i = 0; i < states.size(); ++i)
        check_numbers(states[i].grad(), one["dstates"][i], 2 * tolerance);
      CHECK(layer.parameters().size() == one["grads"].size());
      for (const auto& [parameter, p] : layer.parameters()) {
        CAPTURE_PART(parameter);
        check_numbers(p.grad(), one["grads"][parameter], 2 * tolerance);
      }
      if (states.empty() && one["lengths"].empty())  // called like any module
        check_numbers(layer(x), one["results"][0], tolerance);
    }
}

}  // namespace

TEST_CASE("recurrent layers give PyTorch's values and gradients") { check_recurrent_numbers({}); }

TEST_CASE("GPU: recurrent layers give PyTorch's values and gradients" * on_gpu()) {
  check_recurrent_numbers({DeviceType::cuda, 0});
}

TEST_CASE("a recurrent layer drops between its layers in training alone") {
  LSTM lstm(3, 4, {.num_layers = 2, .dropout = 0.5});
  const Tensor x = hashed({5, 2, 3}, 1);
  const auto numbers = [&] { return lstm(x).to_vector<float>(); };
  CHECK(numbers() != numbers());
  lstm.eval();
  CHECK(numbers() == numbers());
}

TEST_CASE("under autocast a recurrent layer computes in 16 bits throughout") {
  OpPolicy policy{.lower = DType::bf16};
  policy.set(Op::lstm, OpClass::lower_precision);
  LSTM lstm(3, 4);
  const Tensor x = hashed({5, 2, 3}, 1).requires_grad_();
  const PolicyScope scope(&policy);
  const auto [output, state] = lstm(x, {});
  CHECK(output.dtype() == DType::bf16);
  CHECK(state.c.dtype() == DType::bf16);
  sum(output).backward();
  CHECK(x.grad().dtype() == DType::f32);
}

TEST_CASE("where autocast knows the products alone a recurrent layer keeps its state") {
  OpPolicy policy{.lower = DType::bf16};
  policy.set(Op::linear, OpClass::lower_precision);
  GRU gru(3, 4);
  LSTMCell cell(3, 4);
  const Tensor x = hashed({5, 2, 3}, 1);
  const Tensor exact = gru(x);
  const PolicyScope scope(&policy);
  const Tensor y = gru(x);
  CHECK(y.dtype() == DType::f32);
  const double error = largest_error(y.to_vector<double>(), exact.to_vector<double>());
  CHECK(error > 1e-5);  // the products were rounded
  CHECK(error < 1e-2);
  CHECK(cell(x[0], {}).c.dtype() == DType::f32);
}

TEST_CASE("a penalty on a recurrent layer's gradient is differentiated as finite differences are") {
  for (const std::string name : {"lstm", "lstm_projected", "gru", "rnn", "lstm_cell", "gru_cell"}) {
    CAPTURE(name);
    const Model layer = layer_of(name, DType::f64, {});
    const Shape shape = has(name, "cell") ? Shape{2, 3} : Shape{3, 2, 3};
    const std::vector<double> at = hashed(shape, 9).to_vector<double>();
    const auto penalty_of = [&](const Tensor& x) {
      const Tensor slope = gradients(sum(square(layer(x))), {x}, {.create_graph = true})[0];
      return sum(square(slope));
    };
    const Tensor x = from_vector(at, shape).requires_grad_();
    backward(penalty_of(x));
    const std::vector<double> got = x.grad().to_vector<double>();
    for (const size_t i : {size_t{0}, at.size() - 1}) {
      const double step = 1e-6;
      std::vector<double> up = at, down = at;
      up[i] += step;
      down[i] -= step;
      const double above = penalty_of(from_vector(up, shape).requires_grad_()).item(),
                   below = penalty_of(from_vector(down, shape).requires_grad_()).item();
      CHECK(got[i] == doctest::Approx((above - below) / (2 * step)).epsilon(1e-4));
    }
  }
}

TEST_CASE("a recurrent layer's output that changed in place fails the backward pass") {
  GRU gru(3, 4);
  const auto [y, h] = gru(hashed({5, 2, 3}, 1).requires_grad_(), {});
  y.detach().mul_(2);
  CHECK_THROWS_AS(sum(h).backward(), Error);
}

TEST_CASE("the last states alone give gradients, and so do the first outputs alone") {
  for (const std::string name : {"lstm_two_ways", "gru_two_ways", "rnn_two_ways", "rnn_relu"}) {
    CAPTURE(name);
    const Model layer = layer_of(name, DType::f64, {});
    const Tensor x = untracked::cast(hashed({4, 3, 3}, 5), DType::f64).requires_grad_();
    const Tensor whole = from_vector<int64_t>({4, 4, 4}, {3});  // the same, step by step
    for (const auto part : {0, 1}) {
      CAPTURE(part);
      const auto slope = [&](const Tensor& lengths) {
        const std::vector<Tensor> results = run(layer.module(), x, {}, lengths);
        const Tensor read = part == 0 ? narrow(results[0], 0, 0, 2) : results.back();
        return gradients(sum(square(read)), {x})[0].to_vector<double>();
      };
      CHECK(largest_error(slope({}), slope(whole)) < 1e-14);
    }
  }
}

TEST_CASE("recurrent layers say what does not fit") {
  CHECK_THROWS_AS(LSTM(3, 0), Error);
  CHECK_THROWS_AS(GRU(3, 4, {.num_layers = 0}), Error);
  CHECK_THROWS_AS(GRU(3, 4, {.dropout = 2}), Error);
  LSTM lstm(3, 4);
  CHECK_THROWS_WITH_AS(
      lstm(zeros({5, 2, 4})),
      "LSTM: x has the wrong shape; got (5, 2, 4), want (steps, batch, 3) or without "
      "batch",
      Error);
  CHECK_THROWS_AS(lstm(zeros({0, 2, 3})), Error);
  CHECK_THROWS_WITH_AS(lstm(zeros({5, 2, 3}), {zeros({1, 3, 4}), {}}),
                       "LSTM: the state has the wrong shape; got (1, 3, 4), want (1, 2, 4)", Error);
  CHECK_THROWS_WITH_AS(lstm(zeros({5, 2, 3}), {}, from_vector<int64_t>({5, 6}, {2})),
                       "LSTM: a length is out of range; got 6, want 1 to 5", Error);
  CHECK_THROWS_WITH_AS(lstm(zeros({5, 2, 3}), {}, from_vector<int64_t>({5}, {1})),
                       "LSTM: lengths do not fit; got (1,) of i64, want (2,) of i64", Error);
  CHECK_THROWS_WITH_AS(GRU(3, 4, {.proj_size = 2}),
                       "GRU: proj_size is an option of LSTM only; got 2, want 0", Error);
  CHECK_THROWS_AS(LSTM(3, 4, {.proj_size = 4}), Error);
  CHECK_THROWS_AS(LSTM(3, 4, {.nonlinearity = "relu"}), Error);
  CHECK_THROWS_WITH_AS(RNN(3, 4, {.nonlinearity = "sin"}),
                       "RNN: unknown nonlinearity; got sin, want tanh or relu", Error);
  LSTMCell cell(3, 4);
  CHECK_THROWS_AS(cell(zeros({2, 4})), Error);
  CHECK_THROWS_AS(cell(zeros({2, 3}), {zeros({2, 3}), {}}), Error);
}

// Packed sequences against each sequence alone.
TEST_CASE("sequences of drawn lengths give what each gives alone") {
  for (const unsigned seed : draws(40)) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto draw = [&](int64_t low, int64_t high) {
      return std::uniform_int_distribution<int64_t>(low, high)(random);
    };
    const int64_t steps = draw(1, 5), batch = draw(1, 4), in = draw(1, 3), hidden = draw(2, 4);
    RecurrentOptions options = {.num_layers = draw(1, 3),
                                .bias = draw(0, 1) == 1,
                                .batch_first = draw(0, 1) == 1,
                                .bidirectional = draw(0, 1) == 1};
    const int64_t kind = draw(0, 2);
    if (kind == 0) options.proj_size = draw(0, hidden - 1);
    const Model layer = kind == 0   ? Model(LSTM(in, hidden, options))
                        : kind == 1 ? Model(GRU(in, hidden, options))
                                    : Model(RNN(in, hidden, options));
    layer->to(DType::f64);
    const int along = options.batch_first ? 1 : 0, across = 1 - along;
    const Shape shape = along == 1 ? Shape{batch, steps, in} : Shape{steps, batch, in};
    const Tensor x = untracked::cast(hashed(shape, seed), DType::f64).requires_grad_();
    std::vector<int64_t> lengths;
    for (int64_t i = 0; i < batch; ++i) lengths.push_back(draw(1, steps));
    const std::vector<Tensor> all = run(layer.module(), x, {}, from_vector(lengths, {batch}));
    const auto apart = [](const Tensor& got, const Tensor& want) {
      return largest_error(got.to_vector<double>(), want.to_vector<double>());
    };
    std::vector<Tensor> alone;
    for (int64_t i = 0; i < batch; ++i) {
      const int64_t length = lengths[static_cast<size_t>(i)];
      const Tensor mine = narrow(narrow(x, across, i, 1), along, 0, length);
      const std::vector<Tensor> one = run(layer.module(), mine, {});
      const Tensor rest = narrow(narrow(all[0], across, i, 1), along, length, steps - length);
      CHECK(apart(rest, zeros_like(rest)) == 0);
      CHECK(apart(narrow(narrow(all[0], across, i, 1), along, 0, length), one[0]) < 1e-14);
      for (size_t s = 1; s < one.size(); ++s) CHECK(apart(narrow(all[s], 1, i, 1), one[s]) < 1e-14);
      alone.push_back(sum(square(one[0])) + sum(one.back()));
    }
    const Tensor want = gradients(sum(stack(alone)), {x})[0];
    const Tensor got = gradients(sum(square(all[0])) + sum(all.back()), {x})[0];
    CHECK(apart(got, want) < 1e-13);
  }
}
