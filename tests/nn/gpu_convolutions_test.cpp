// Convolutions on a GPU against the CPU's: windows that overlap, leave gaps or are adjacent. Each
// uses other kernels, with results in another memory order.
#include "core/autograd/functions.h"
#include "core/nn/functional.h"
#include "tests/capture_part.h"
#include "tests/draws.h"
#include "tests/nn/golden.h"
#include "tests/on_gpu.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <random>

using namespace booster;
using namespace booster::testing;

namespace {

struct DrawnConvolution {
  explicit DrawnConvolution(std::mt19937& random) {
    const auto draw = [&](int64_t below) { return static_cast<int64_t>(random() % below); };
    const auto side = [&](Size2d& stride, Size2d& padding, int64_t Size2d::*of, int64_t kernel) {
      stride.*of = draw(3) ? kernel : 1 + draw(3);
      padding.*of = draw(3) ? 0 : draw(kernel);
      return kernel;
    };
    options.groups = draw(4) ? 1 : 2;
    const int64_t height = side(options.stride, options.padding, &Size2d::height, 1 + draw(4));
    const int64_t width = side(options.stride, options.padding, &Size2d::width, 1 + draw(4));
    x = {1 + draw(3), options.groups * (1 + draw(4)), 8 + draw(9), 8 + draw(9)};
    weight = {options.groups * (1 + draw(6)), x[1] / options.groups, height, width};
    has_bias = draw(2);
    reads_channels_last = draw(3) == 0;
  }
  std::string text() const {
    return fmt::format("x {}{}, weight {}, stride {} {}, padding {} {}, groups {}{}", x,
                       reads_channels_last ? " channels last" : "", weight, options.stride.height,
                       options.stride.width, options.padding.height, options.padding.width,
                       options.groups, has_bias ? ", bias" : "");
  }

  ConvOptions options;
  Shape x, weight;
  bool has_bias, reads_channels_last;
};

// Returns the result as tokens, as a Vision Transformer reads it, and the gradients.
std::vector<Tensor> results_of(const DrawnConvolution& drawn, Device device) {
  const auto leaf = [&](const Shape& shape, uint32_t seed) {
    return hashed(shape, seed).to(device).requires_grad_();
  };
  const Tensor x = leaf(drawn.x, 1), weight = leaf(drawn.weight, 2);
  const Tensor bias = drawn.has_bias ? leaf({drawn.weight[0]}, 3) : Tensor();
  const Tensor y =
      conv2d(drawn.reads_channels_last ? channels_last(x) : x, weight, bias, drawn.options);
  const Tensor tokens = transpose(flatten(relu(y), 2), 1, 2);
  sum(tokens * hashed(tokens.shape(), 4).to(device)).backward();
  std::vector<Tensor> results = {y.detach(), tokens.detach(), x.grad(), weight.grad()};
  if (drawn.has_bias) results.push_back(bias.grad());
  return results;
}

}  // namespace

TEST_CASE("GPU: drawn convolutions of whole tensors agree with the CPU" * on_gpu()) {
  for (const unsigned i : booster::testing::draws(60)) {
    std::mt19937 random(i);
    const DrawnConvolution drawn(random);
    const std::string text = drawn.text();
    CAPTURE(text);
    const auto want = results_of(drawn, {}), got = results_of(drawn, gpu);
    for (size_t k = 0; k < want.size(); ++k) {
      CAPTURE(k);
      CHECK(got[k].shape() == want[k].shape());
      CHECK(largest_error(got[k].to(Device{}).to_vector<double>(), want[k].to_vector<double>()) <
            1e-5);
    }
  }
}
