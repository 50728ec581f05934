// MultiheadAttention and Transformers against PyTorch's values
// (tests/golden/nn/attention_layers.json).
#include "core/autograd/tape.h"
#include "core/nn/sequence_layers.h"
#include "tests/capture_part.h"
#include "tests/nn/golden.h"
#include "tests/on_gpu.h"

#include <doctest/doctest.h>

#include <limits>

using namespace booster;
using namespace booster::testing;

namespace {

using Call = std::function<std::vector<Tensor>(Module&, const std::vector<Tensor>&)>;
struct LayerCase {
  std::function<Model()> make;
  Call call;
};

// Returns make_sequence_layers.py's mask: about a third of the keys, never the first.
Tensor hides(const Shape& shape, uint32_t seed) {
  std::vector<uint8_t> mask;
  for (const float x : hashed(shape, seed).to_vector<float>())
    mask.push_back(mask.size() % static_cast<size_t>(shape.back()) != 0 && x > 0.4);
  return greater(untracked::cast(from_vector(mask, shape), DType::i64), 0);
}

Tensor padding_as_numbers() { return untracked::cast(hides({2, 5}, 70), DType::f64) * -2.0; }

AttentionMasks on_device(AttentionMasks masks, Device device) {
  for (Tensor* mask : {&masks.key_padding, &masks.attention})
    if (mask->defined()) *mask = mask->to(device);
  return masks;
}

// A call of attention with these masks.
LayerCase attends(MultiheadAttentionOptions options, AttentionMasks masks, bool weights,
                  int64_t heads = 3) {
  return {[=] { return MultiheadAttention(6, heads, options); },
          [=](Module& layer, const std::vector<Tensor>& in) {
            const auto& key = in.size() > 1 ? in[1] : in[0];
            const auto& value = in.size() > 1 ? in[2] : in[0];
            const auto [y, w] = dynamic_cast<MultiheadAttention&>(layer)(
                in[0], key, value, on_device(masks, in[0].device()), weights);
            return w.defined() ? std::vector{y, w} : std::vector{y};
          }};
}

const TransformerOptions small_layer = {.dim_feedforward = 7, .dropout = 0.3};
const TransformerOptions norm_first_layer = {.dim_feedforward = 7,
                                             .dropout = 0.3,
                                             .activation = "gelu",
                                             .layer_norm_eps = 1e-3,
                                             .batch_first = true,
                                             .norm_first = true};
TransformerOptions without_bias() {
  TransformerOptions options = small_layer;
  options.bias = false;
  return options;
}

const std::map<std::string, LayerCase>& layer_cases() {
  static const Tensor padding = hides({2, 5}, 70), each = hides({4, 5}, 71);
  static const Tensor of_memory = hides({2, 4}, 70);
  static const std::map<std::string, LayerCase> cases = {
      {"attention", attends({}, {}, false)},
      {"attention_weights", attends({}, {}, true)},
      {"attention_batch_first", attends({.bias = false, .batch_first = true}, {}, false)},
      {"attention_other_features",
       attends({.kdim = 5, .vdim = 3, .batch_first = true}, {}, true, 2)},
      {"attention_padding", attends({}, {.key_padding = padding}, true)},
      {"attention_masks", attends({}, {.key_padding = padding, .attention = each}, true)},
      {"attention_masks_of_heads", attends({}, {.attention = hides({6, 4, 5}, 72)}, false)},
      {"attention_added_mask",
       attends({}, {padding_as_numbers(), untracked::cast(hashed({4, 5}, 73), DType::f64)}, true)},
      {"attention_causal", attends({}, {.causal = true}, false)},
      {"attention_one", attends({}, {.key_padding = padding[0]}, true)},
      {"encoder_layer",
       {[] { return TransformerEncoderLayer(6, 3, small_layer); },
        [](Module& layer, const std::vector<Tensor>& in) { return std::vector{layer(in[0])}; }}},
      {"encoder_layer_first",
       {[] { return TransformerEncoderLayer(6, 3, norm_first_layer); },
        [](Module& layer, const std::vector<Tensor>& in) {
          return std::vector{dynamic_cast<TransformerEncoderLayer&>(layer)(
              in[0], on_device({.key_padding = of_memory}, in[0].device()))};
        }}},
      {"decoder_layer",
       {[] { return TransformerDecoderLayer(6, 3, small_layer); },
        [](Module& layer, const std::vector<Tensor>& in) {
          return std::vector<Tensor>{layer(Tensors{{"target", in[0]}, {"memory", in[1]}})};
        }}},
      {"decoder_layer_first",
       {[] { return TransformerDecoderLayer(6, 3, norm_first_layer); },
        [](Module& layer, const std::vector<Tensor>& in) {
          return std::vector{dynamic_cast<TransformerDecoderLayer&>(layer)(
              in[0], in[1], {.causal = true},
              on_device({.key_padding = of_memory}, in[0].device()))};
        }}},
      {"encoder",
       {[] { return TransformerEncoder(6, 3, 2, without_bias()); },
        [](Module& layer, const std::vector<Tensor>& in) { return std::vector{layer(in[0])}; }}},
      {"transformer",
       {[] { return Transformer(6, 3, 2, 2, small_layer); },
        [](Module& layer, const std::vector<Tensor>& in) {
          return std::vector<Tensor>{layer(Tensors{{"source", in[0]}, {"target", in[1]}})};
        }}},
  };
  return cases;
}

void check_attention_layers(Device device) {
  const Json cases = read_golden("attention_layers.json");
  CHECK(cases.size() == layer_cases().size());
  for (const Json& one : cases)
    for (const DType dtype : {DType::f32, DType::f64}) {
      const std::string name = one["name"];
      CAPTURE(name);
      CAPTURE(std::string(name_of(dtype)));
      const double tolerance = dtype == DType::f32 ? 1e-5 : 3e-7;  // golden values have 9 digits
      const LayerCase& made = layer_cases().at(name);
      const Model layer = made.make();
      layer->to(dtype);
      layer->to(device);
      layer->eval();
      uint32_t seed = 0;
      for (const auto& [parameter, p] : layer.parameters()) {
        const NoGradGuard no_grad;
        Tensor(p).copy_(hashed(p.shape(), seed++)).mul_(0.5);
      }
      std::vector<Tensor> inputs;
      for (const Json& shape : one["shapes"]) {
        const Tensor x = hashed(shape_of(shape), 50 + static_cast<uint32_t>(inputs.size()));
        inputs.push_back(untracked::cast(x, dtype).to(device).requires_grad_());
      }
      const std::vector<Tensor> results = made.call(layer.module(), inputs);
      REQUIRE(results.size() == one["results"].size());
      Tensor total = zeros({}, {dtype, device});
      for (size_t i = 0; i < results.size(); ++i) {
        CHECK(largest_error(results[i].to_vector<double>(), one["results"][i]) < tolerance);
        const Tensor weights = hashed(results[i].shape(), 90 + static_cast<uint32_t>(i));
        total = total + sum(results[i] * untracked::cast(weights, dtype).to(device));
      }
      total.backward();
      for (size_t i = 0; i < inputs.size(); ++i)
        CHECK(largest_error(inputs[i].grad().to_vector<double>(), one["dx"][i]) < 3 * tolerance);
      CHECK(layer.parameters().size() == one["grads"].size());
      for (const auto& [parameter, p] : layer.parameters()) {
        CAPTURE_PART(parameter);
        REQUIRE(one["grads"].contains(parameter));
        CHECK(largest_error(p.grad().to_vector<double>(), one["grads"][parameter]) < 3 * tolerance);
      }
    }
}

}  // namespace

TEST_CASE("attention layers and Transformers give PyTorch's values and gradients") {
  check_attention_layers({});
}

TEST_CASE("GPU: attention layers and Transformers give PyTorch's values" * on_gpu()) {
  check_attention_layers({DeviceType::cuda, 0});
}

TEST_CASE("self-attention alone is attention to itself, with every option") {
  for (const bool batch_first : {false, true})
    for (const bool causal : {false, true}) {
      MultiheadAttention layer(12, 3, {.batch_first = batch_first, .causal = causal});
      const Tensor x = hashed({4, 5, 12}, 1);
      const Tensor itself = layer(x), other = layer(x, x, x).output;
      CHECK(largest_error(itself.to_vector<double>(), other.to_vector<double>()) < 1e-6);
      sum(square(itself)).backward();
      const auto packed = layer.in_proj_weight.grad().to_vector<double>();
      layer.zero_grad();
      sum(square(other)).backward();
      CHECK(largest_error(layer.in_proj_weight.grad().to_vector<double>(), packed) < 1e-5);
    }
}

TEST_CASE("attention layers drop in training alone") {
  TransformerEncoderLayer layer(6, 3, small_layer);
  const Tensor x = hashed({5, 2, 6}, 1);
  const auto numbers = [&] { return layer(x).to_vector<float>(); };
  CHECK(numbers() != numbers());
  layer.eval();
  CHECK(numbers() == numbers());
}

TEST_CASE("attention layers say what does not fit") {
  CHECK_THROWS_WITH_AS(MultiheadAttention(10, 3), doctest::Contains("3 heads of 10"), Error);
  MultiheadAttention layer(6, 3);
  const Tensor x = hashed({4, 2, 6}, 1);
  CHECK_THROWS_WITH_AS(layer(x, x, x, {.key_padding = hides({4, 2}, 1)}),
                       "MultiheadAttention: key_padding has the wrong shape; got (4, 2), want "
                       "(2, 4)",
                       Error);
  CHECK_THROWS_WITH_AS(layer(x, x, x, {.attention = hides({4, 5}, 1)}),
                       "MultiheadAttention: attention mask has the wrong shape; got (4, 5), want "
                       "(4, 4) or (6, 4, 4)",
                       Error);
  CHECK_THROWS_WITH_AS(layer(x, x, x, {.attention = ones({4, 4}, {DType::i64})}),
                       doctest::Contains("a mask has the wrong dtype; got i64"), Error);
  CHECK_THROWS_AS(layer(zeros({6})), Error);
  CHECK_THROWS_WITH_AS(TransformerEncoderLayer(6, 3, {.activation = "silu"}),
                       "TransformerEncoderLayer: unknown activation; got silu, want relu or gelu",
                       Error);
}
