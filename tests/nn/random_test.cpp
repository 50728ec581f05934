// Initial values and noise have the documented distributions, from a reproducible stream.
#include "core/autograd/tape.h"
#include "core/nn/functional.h"
#include "core/nn/layers.h"
#include "tests/nn/golden.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace booster;
using namespace booster::testing;

namespace {

struct Moments {
  double mean, deviation, low, high;
};

Moments moments(const Tensor& x) {
  const auto values = x.to_vector<double>();
  double sum = 0, squares = 0;
  for (double value : values) sum += value;
  const double mean = sum / double(values.size());
  for (double value : values) squares += (value - mean) * (value - mean);
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  return {mean, std::sqrt(squares / double(values.size())), *low, *high};
}

}  // namespace

TEST_CASE("initialisers have their distributions") {
  manual_seed(11);
  Tensor x = empty({200, 300});
  init::uniform(x, -1, 3);
  CHECK(moments(x).mean == doctest::Approx(1).epsilon(0.02));
  CHECK(moments(x).low < -0.99);
  CHECK(moments(x).high > 2.99);
  init::normal(x, 2, 0.5);
  CHECK(moments(x).deviation == doctest::Approx(0.5).epsilon(0.02));
  init::xavier_uniform(x);
  CHECK(moments(x).high == doctest::Approx(std::sqrt(6.0 / 500)).epsilon(0.01));
  init::xavier_normal(x, 2);
  CHECK(moments(x).deviation == doctest::Approx(2 * std::sqrt(2.0 / 500)).epsilon(0.02));
  init::kaiming_uniform(x, std::sqrt(5));
  CHECK(moments(x).high == doctest::Approx(1 / std::sqrt(300.0)).epsilon(0.01));
  init::kaiming_normal(x, 0, init::Fan::out);
  CHECK(moments(x).deviation == doctest::Approx(std::sqrt(2.0 / 200)).epsilon(0.02));
  init::constant(x, 3);
  CHECK(moments(x).low == 3);
  const auto fans = init::fans_of(zeros({8, 3, 5, 2}));
  CHECK(fans.in == 30);
  CHECK(fans.out == 80);
}

TEST_CASE("a truncated normal keeps to its bounds and has the exact spread") {
  manual_seed(12);
  Tensor x = empty({100000});
  init::truncated_normal(x, 0, 1, -2, 2);
  CHECK(moments(x).low >= -2);
  CHECK(moments(x).high <= 2);
  CHECK(moments(x).high > 1.99);
  // The deviation of a normal distribution truncated at two deviations is sqrt(1 - 4 phi(2) / (2
  // Phi(2) - 1)).
  CHECK(moments(x).deviation == doctest::Approx(0.8796).epsilon(0.01));
  init::truncated_normal(x, 0, 1, 3, 5);  // far tail: rejection would be very slow
  CHECK(moments(x).low >= 3);
  CHECK(moments(x).mean == doctest::Approx(3.2831).epsilon(0.002));
  init::truncated_normal(x, 0, 0.02);
  CHECK(moments(x).deviation == doctest::Approx(0.02).epsilon(0.02));
}

TEST_CASE("layers start as PyTorch's do") {
  manual_seed(13);
  Linear linear(400, 300);
  CHECK(moments(linear.weight).high == doctest::Approx(0.05).epsilon(0.01));
  CHECK(moments(linear.bias).high == doctest::Approx(0.05).epsilon(0.05));
  Conv2d conv(16, 64, 3);
  CHECK(moments(conv.weight).high == doctest::Approx(1.0 / 12).epsilon(0.01));
  Embedding table(300, 40);
  CHECK(moments(table.weight).deviation == doctest::Approx(1).epsilon(0.02));
}

TEST_CASE("the same seed gives the same initial values") {
  manual_seed(14);
  const auto first = Linear(7, 5).weight.to_vector<float>();
  manual_seed(14);
  CHECK(Linear(7, 5).weight.to_vector<float>() == first);
  CHECK(Linear(7, 5).weight.to_vector<float>() != first);
}

TEST_CASE("dropout drops its share, keeps the mean and passes gradients where it passes values") {
  manual_seed(15);
  const Tensor x = ones({400, 300}).requires_grad_();
  const Tensor y = dropout(x, 0.25);
  const auto values = y.to_vector<float>();
  const auto dropped = std::count(values.begin(), values.end(), 0.0f);
  CHECK(double(dropped) / 120000 == doctest::Approx(0.25).epsilon(0.02));
  CHECK(moments(y).high == doctest::Approx(4.0 / 3));
  sum(y).backward();
  CHECK(x.grad().to_vector<float>() == values);
  CHECK(sum(dropout(x, 1)).item() == 0);
  CHECK(dropout(x, 0.25, false).to_vector<float>() == x.to_vector<float>());
}

TEST_CASE("dropout2d drops whole channels, of each sample its own") {
  manual_seed(17);
  const Tensor x = ones({40, 5, 3, 2}).requires_grad_();
  const Tensor y = Dropout2d(0.4)(x);
  const auto values = y.to_vector<float>();
  int dropped = 0;
  for (size_t channel = 0; channel < 200; ++channel) {
    const float first = values[6 * channel];
    CHECK((first == 0 || first == doctest::Approx(1 / 0.6)));
    for (size_t i = 1; i < 6; ++i) CHECK(values[6 * channel + i] == first);
    dropped += first == 0;
  }
  CHECK(dropped > 50);
  CHECK(dropped < 110);
  sum(y).backward();
  CHECK(x.grad().to_vector<float>() == values);
  Dropout2d off(0.4);
  off.eval();
  CHECK(off(x).to_vector<float>() == x.to_vector<float>());
  CHECK(sum(dropout2d(x, 1)).item() == 0);
  CHECK_THROWS_WITH_AS(dropout2d(ones({2, 3}), 0.5), doctest::Contains("(n, channels, ...)"),
                       Error);
}

TEST_CASE("drop path drops whole samples") {
  manual_seed(16);
  const Tensor x = ones({200, 3, 2}).requires_grad_();
  const Tensor y = drop_path(x, 0.4);
  const auto values = y.to_vector<float>();
  int dropped = 0;
  for (size_t sample = 0; sample < 200; ++sample) {
    for (size_t i = 1; i < 6; ++i) CHECK(values[6 * sample + i] == values[6 * sample]);
    dropped += values[6 * sample] == 0;
  }
  CHECK(dropped > 50);
  CHECK(dropped < 110);
  sum(y).backward();
  CHECK(x.grad().to_vector<float>() == values);
}

TEST_CASE("attention dropout is the same in forward and backward") {
  const Tensor qkv = hashed({1, 4, 3, 1, 4}, 1).requires_grad_();
  // With dropout the result is still linear in v: d sum(y * w) / dv does not depend on v.
  const auto v_gradient = [&](const Tensor& x) {
    manual_seed(17);
    const Tensor leaf = x.detach().clone().requires_grad_();
    const Tensor y = attention_packed(leaf, {.dropout = 0.5});
    sum(y).backward();
    const Tensor v = untracked::select(x, 2, 2), dv = untracked::select(leaf.grad(), 2, 2);
    return sum(y).item() - sum(mul(v, dv)).item();
  };
  CHECK(std::abs(v_gradient(qkv.detach())) < 1e-5);
}
