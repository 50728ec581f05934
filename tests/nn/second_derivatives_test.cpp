// Gradients of gradients of layers, against PyTorch's (tests/golden/nn/second_derivatives.json) and
// finite differences.
#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/nn/functional.h"
#include "tests/draws.h"
#include "tests/nn/golden.h"

#include <doctest/doctest.h>

#include <functional>
#include <map>
#include <random>

using namespace booster;
using namespace booster::testing;

namespace {

using Inputs = std::vector<Tensor>;
using Layer = std::function<Tensor(const Inputs&)>;

// Returns the sum of squared gradients of sum(f(inputs)^2), on the tape.
Tensor penalty_of(const Layer& f, const Inputs& in) {
  const auto slopes = gradients(sum(square(f(in))), in, {.create_graph = true});
  Tensor total = zeros({}, {DType::f64});
  for (const Tensor& slope : slopes) total = total + sum(square(slope));
  return total;
}

Inputs hashed_inputs(const std::vector<Shape>& shapes) {
  Inputs inputs;
  for (const Shape& shape : shapes) {
    const Tensor x = hashed(shape, static_cast<uint32_t>(inputs.size()));
    inputs.push_back(untracked::cast(x, DType::f64).requires_grad_());
  }
  return inputs;
}

const std::map<std::string, Layer>& twice_layers() {
  static const std::map<std::string, Layer> layers = {
      {"softmax", [](const Inputs& in) { return softmax(in[0], -1); }},
      {"softmax_of_middle", [](const Inputs& in) { return softmax(in[0], 1); }},
      {"log_softmax", [](const Inputs& in) { return log_softmax(in[0], -1); }},
      {"layer_norm", [](const Inputs& in) { return layer_norm(in[0], {6}, in[1], in[2]); }},
      {"layer_norm_alone",
       [](const Inputs& in) {
         return layer_norm(in[0], {2, 3}, {}, {}, 1e-3);
       }},
      {"rms_norm", [](const Inputs& in) { return rms_norm(in[0], {6}, in[1], 1e-3); }},
      {"conv2d", [](const Inputs& in) { return conv2d(in[0], in[1], in[2], {.padding = 1}); }},
      {"conv2d_strided",
       [](const Inputs& in) {
         return conv2d(in[0], in[1], {},
                       {.stride = {2, 1}, .padding = {1, 2}, .dilation = {1, 2}, .groups = 2});
       }},
      {"conv1d", [](const Inputs& in) { return conv1d(in[0], in[1], in[2], {.stride = 2}); }},
      {"conv_transpose2d",
       [](const Inputs& in) {
         return conv_transpose2d(
             in[0], in[1], in[2],
             {.stride = {2, 1}, .padding = {1, 0}, .output_padding = {1, 0}, .groups = 2});
       }},
      {"group_norm", [](const Inputs& in) { return group_norm(in[0], 2, in[1], in[2]); }},
      {"batch_norm",
       [](const Inputs& in) {
         return batch_norm(in[0], {}, {}, in[1], in[2], {.training = true});
       }},
      {"batch_norm_eval",
       [](const Inputs& in) {
         return batch_norm(in[0], from_vector<double>({0.2, -0.3}, {2}),
                           from_vector<double>({0.5, 2}, {2}), in[1], in[2]);
       }},
      {"attention", [](const Inputs& in) { return attention(in[0], in[1], in[2]); }},
      {"attention_causal",
       [](const Inputs& in) { return attention(in[0], in[1], in[2], {.causal = true}); }},
      {"attention_mask",
       [](const Inputs& in) { return attention(in[0], in[1], in[2], {.mask = in[3]}); }},
      {"attention_packed", [](const Inputs& in) { return attention_packed(in[0]); }},
  };
  return layers;
}

}  // namespace

TEST_CASE("gradients of layers' gradients are PyTorch's") {
  const Json cases = read_golden("second_derivatives.json");
  CHECK(cases.size() == twice_layers().size());
  for (const Json& one : cases) {
    const std::string name = one["name"];
    CAPTURE(name);
    std::vector<Shape> shapes;
    for (const Json& shape : one["shapes"]) shapes.push_back(shape_of(shape));
    const Inputs inputs = hashed_inputs(shapes);
    const Tensor penalty = penalty_of(twice_layers().at(name), inputs);
    CHECK(penalty.item() == doctest::Approx(one["penalty"].get<double>()).epsilon(1e-7));
    backward(penalty);
    for (size_t i = 0; i < inputs.size(); ++i) {
      CAPTURE(i);
      REQUIRE(inputs[i].grad().defined());
      CHECK(largest_error(inputs[i].grad().to_vector<double>(), one["grads"][i]) < 1e-6);
    }
  }
}

TEST_CASE("second derivatives of drawn layers are finite differences of first ones") {
  for (const unsigned seed : draws(60)) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto draw = [&](int64_t low, int64_t high) {
      return std::uniform_int_distribution<int64_t>(low, high)(random);
    };
    Layer layer;
    std::vector<Shape> shapes;
    if (seed % 3 == 0) {
      const int64_t groups = draw(1, 2), each = draw(1, 2), out = groups * draw(1, 2);
      const ConvOptions options = {.stride = {draw(1, 2), draw(1, 3)},
                                   .padding = {draw(0, 1), draw(0, 2)},
                                   .dilation = {draw(1, 2), 1},
                                   .groups = groups};
      shapes = {{draw(1, 2), groups * each, draw(4, 5), draw(3, 5)},
                {out, each, draw(1, 2), draw(1, 3)},
                {out}};
      layer = [=](const Inputs& in) { return conv2d(in[0], in[1], in[2], options); };
    } else if (seed % 3 == 1) {
      const int64_t heads = draw(1, 2), keys = heads * (draw(0, 1) == 1 ? 1 : 2), size = draw(1, 3);
      const int64_t tokens = draw(1, 4);
      const bool causal = draw(0, 1) == 1;
      const AttentionOptions options = {.causal = causal, .window = causal ? draw(0, 2) : 0};
      shapes = {{1, keys, tokens, size}, {1, heads, tokens, size}, {1, heads, tokens, size}};
      layer = [=](const Inputs& in) { return attention(in[0], in[1], in[2], options); };
    } else {
      const int64_t d = draw(0, 2);
      shapes = {{draw(1, 3), draw(1, 4), draw(1, 20)}};
      layer = [=](const Inputs& in) { return log_softmax(in[0], d) * softmax(in[0], 2 - d); };
    }
    const Inputs inputs = hashed_inputs(shapes);
    backward(penalty_of(layer, inputs));
    const auto which = static_cast<size_t>(draw(0, int64_t(inputs.size()) - 1));
    const std::vector<double> at = inputs[which].to_vector<double>();
    const auto place = static_cast<size_t>(draw(0, int64_t(at.size()) - 1));
    const auto moved = [&](double by) {
      std::vector<double> numbers = at;
      numbers[place] += by;
      Inputs other = inputs;
      other[which] = from_vector(numbers, inputs[which].shape()).requires_grad_();
      return penalty_of(layer, other).item();
    };
    const double want = (moved(1e-5) - moved(-1e-5)) / 2e-5;
    const double got = inputs[which].grad().to_vector<double>()[place];
    CHECK(std::abs(got - want) < 1e-5 * (1 + std::abs(want)));
  }
}

TEST_CASE("attention with dropout says that it cannot be differentiated twice") {
  const Tensor q = hashed({1, 1, 3, 2}, 1).requires_grad_();
  const Tensor y = attention(q, q, q, {.dropout = 0.5});
  CHECK_THROWS_WITH_AS(gradients(sum(y), {q}, {.create_graph = true}),
                       doctest::Contains("with dropout it cannot be differentiated twice"), Error);
}
