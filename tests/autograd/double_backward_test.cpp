// Gradients of gradients, against finite differences and PyTorch 2.15
// (tests/golden/make_double_backward.py).
#include "core/autograd/functions.h"
#include "core/autograd/tape.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <string>

using namespace booster;

namespace {

Tensor leaf(const std::vector<float>& numbers, const Shape& shape) {
  return from_vector(numbers, shape).requires_grad_();
}

// Checks the gradient of the sum of squared gradients of y = f(x) against finite differences of the
// gradients.
void check_twice(const char* name, const std::function<Tensor(const Tensor&)>& f,
                 std::vector<double> at = {-0.7, 0.3, 1.2}) {
  CAPTURE(std::string(name));
  const auto penalty = [&](const std::vector<double>& numbers) {
    const Tensor x = from_vector(numbers, {3}).requires_grad_();
    return sum(square(gradients(sum(square(f(x))), {x}, {.create_graph = true})[0]));
  };
  const Tensor x = from_vector(at, {3}).requires_grad_();
  const Tensor slope = gradients(sum(square(f(x))), {x}, {.create_graph = true})[0];
  backward(sum(square(slope)));
  for (size_t i = 0; i < at.size(); ++i) {
    const double step = 1e-6;
    std::vector<double> up = at, down = at;
    up[i] += step;
    down[i] -= step;
    const double want = (penalty(up).item() - penalty(down).item()) / (2 * step);
    CHECK(x.grad().to_vector<double>()[i] == doctest::Approx(want).epsilon(1e-4));
  }
}

const std::vector<double> positive = {0.4, 0.8, 1.2};

Tensor concat_with_product(const Tensor& x) { return cat({x, reshape(x[0] * x[1], {1})}); }

}  // namespace

TEST_CASE("gradients are those of backward, and leave grad() of leaves alone") {
  const Tensor a = leaf({1, 2, 3}, {3}), b = leaf({4, 5, 6}, {3}), unused = leaf({1}, {1});
  const Tensor y = a * b;
  const auto d = gradients(sum(square(y)), {a, y, unused});
  CHECK(d[0].to_vector<float>() == std::vector<float>{32, 100, 216});
  CHECK(d[1].to_vector<float>() == std::vector<float>{8, 20, 36});
  CHECK_FALSE(d[2].defined());
  CHECK_FALSE(d[0].requires_grad());
  CHECK_FALSE(a.grad().defined());
}

namespace {

// Returns points in the domain of a function, where `others` are not.
std::vector<double> points_for(const std::string& name, const std::vector<double>& others) {
  if (name == "asin" || name == "acos" || name == "atanh") return {-0.7, 0.3, 0.6};
  return name == "acosh" ? std::vector<double>{1.2, 1.7, 2.5} : others;
}

}  // namespace

// Driven by the op table: a new row is tested automatically. The factor x gives functions that are
// constant in steps a second derivative too.
TEST_CASE("every elementwise op can be differentiated twice") {
  const std::vector<double> mixed = {-0.7, 0.3, 1.2};
#define UNARY(name, ...)                                  \
  check_twice(                                            \
      #name, [](const Tensor& x) { return name(x) * x; }, \
      points_for(#name, std::isnan(name(full({}, -0.7)).item()) ? positive : mixed));
#define BINARY(name, ...)                                                            \
  check_twice(                                                                       \
      #name, [](const Tensor& x) { return name(x, 1.3) + name(0.7, x); }, positive); \
  check_twice(                                                                       \
      #name, [](const Tensor& x) { return name(x, square(x) + 0.1) * x; }, positive);
#include "kernels/elementwise.def"
}

TEST_CASE("functions can be differentiated twice") {
  check_twice("sum", [](const Tensor& x) { return sum(x); });
  check_twice("mean", [](const Tensor& x) { return mean(x); });
  check_twice("norm", [](const Tensor& x) { return norm(x); });
  check_twice(
      "pow", [](const Tensor& x) { return pow(x, 3.0) + pow(2.0, x); }, positive);
  check_twice(
      "div", [](const Tensor& x) { return x / (1 + square(x)) - 3 / x; }, positive);
  check_twice("broadcast",
              [](const Tensor& x) { return unsqueeze(x, 0) * unsqueeze(x, 1) + maximum(x, 0.5); });
  const Tensor places = from_vector(std::vector<int64_t>{2, 0, 2, 1}, {4});
  check_twice("gather", [&](const Tensor& x) { return gather(square(x), 0, places); });
  check_twice("index_select", [&](const Tensor& x) { return index_select(square(x), 0, places); });
  check_twice("scatter_add", [&](const Tensor& x) {
    return scatter_add(square(x), 0, places, concat_with_product(x));
  });
  check_twice("scatter", [&](const Tensor& x) {
    return scatter(square(x), 0, narrow(places, 0, 0, 2), x[1] * x * x);
  });
  check_twice("cumsum", [](const Tensor& x) { return cumsum(square(x), 0); });
  check_twice("sort", [](const Tensor& x) { return sort(x * x * x).first * x; });
  check_twice("parts", [](const Tensor& x) {
    return unbind(x)[0] * split(x, 2)[0] + narrow(square(x), 0, 1, 2) * x[-1];
  });
  check_twice("einsum", [](const Tensor& x) { return einsum("i,j,j->i", {x, x, x}); });
  check_twice("shapes", [](const Tensor& x) {
    return matmul(transpose(reshape(x, {1, 3}), 0, 1), cat({reshape(x, {1, 3})}));
  });
}

TEST_CASE("a gradient penalty of an MLP is PyTorch's") {
  const Tensor x = leaf({0.5F, -1, 0.25F, 2}, {2, 2});
  const Tensor w1 = leaf({0.1F, -0.2F, 0.3F, 0.4F, -0.5F, 0.6F}, {3, 2});
  const Tensor b1 = leaf({0.1F, 0.2F, -0.3F}, {3}), w2 = leaf({0.7F, -0.8F, 0.9F}, {1, 3});
  const Tensor y = linear(tanh(linear(x, w1, b1)), w2);
  const Tensor loss = mean(square(y - 1));
  const auto d = gradients(loss, {w1, b1, w2}, {.create_graph = true});
  Tensor squares = zeros({});
  for (const Tensor& g : d) squares = squares + sum(square(g));
  const Tensor penalty = sqrt(squares);
  backward(loss + penalty);
  CHECK(penalty.item() == doctest::Approx(3.13996958732605).epsilon(1e-5));
  const std::pair<Tensor, std::vector<double>> golden[] = {
      {w1, {-1.154488, -0.6505795, 1.419812, -0.9571559, -0.9001833, -3.715974}},
      {b1, {-2.900887, 3.216118, -2.903635}},
      {w2, {1.619906, -3.129326, 1.032358}}};
  for (const auto& [parameter, want] : golden)
    for (size_t i = 0; i < want.size(); ++i)
      CHECK(parameter.grad().to_vector<double>()[i] == doctest::Approx(want[i]).epsilon(1e-4));
}

TEST_CASE("a function without second derivatives says so by name") {
  const Tensor x = leaf({1, 2, 3}, {3});
  const Tensor y = amax(x);
  CHECK_THROWS_WITH_AS(gradients(sum(square(y)), {x}, {.create_graph = true}),
                       doctest::Contains("amax cannot be differentiated twice"), Error);
  // Functions outside the graph of the inputs do not matter.
  CHECK_NOTHROW(gradients(sum(square(y)), {y}, {.create_graph = true}));
}
