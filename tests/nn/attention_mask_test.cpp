// Learned masks: their gradients against the same attention in separate functions.
#include <doctest/doctest.h>

#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/nn/functional.h"
#include "core/tensor/random/random.h"
#include "tests/error_of.h"
#include "tests/nn/golden.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

using namespace booster;
using booster::testing::hashed;
using booster::testing::largest_error;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

struct Arguments {
  explicit Arguments(const Shape& mask_shape)
      : q(leaf(hashed({2, 3, 5, 8}, 1, -2, 2))),
        k(leaf(hashed({2, 3, 7, 8}, 2, -2, 2))),
        v(leaf(hashed({2, 3, 7, 8}, 3, -2, 2))),
        mask(leaf(hashed(mask_shape, 4, -3, 3))),
        g(hashed({2, 3, 5, 8}, 5)) {}
  static Tensor leaf(const Tensor& x) { return x.detach().requires_grad_(); }
  std::vector<std::vector<double>> gradients_of(const Tensor& y) const {
    const auto all = gradients(sum(mul(y, g)), {q, k, v, mask});
    std::vector<std::vector<double>> numbers;
    for (const Tensor& d : all)
      numbers.push_back(untracked::cast(d, DType::f64).to_vector<double>());
    return numbers;
  }
  Tensor q, k, v, mask, g;
};

Tensor in_single_functions(const Arguments& x, double scale, const Tensor& hidden) {
  Tensor scores = add(mul(matmul(x.q, transpose(x.k, -2, -1)), scale), x.mask);
  scores = masked_fill(scores, hidden, -infinity);
  return matmul(softmax(scores, -1), x.v);
}

}  // namespace

TEST_CASE("a learned mask of any shape gets the gradient of attention in single functions") {
  for (const Shape& shape : {Shape{2, 3, 5, 7}, Shape{3, 1, 7}, Shape{5, 1}, Shape{7}, Shape{}}) {
    CAPTURE(shape.numel());
    for (const bool causal : {false, true}) {
      const Arguments x(shape);
      const Tensor seen = tril(ones({5, 7}));
      const Tensor hidden = causal ? equal(seen, 0) : zeros({1}, {DType::boolean});
      const auto want = x.gradients_of(in_single_functions(x, 0.3, hidden));
      const auto got = x.gradients_of(
          attention(x.q, x.k, x.v, {.mask = x.mask, .causal = causal, .scale = 0.3}));
      for (size_t i = 0; i < want.size(); ++i) CHECK(largest_error(got[i], want[i]) < 2e-5);
    }
  }
}

TEST_CASE("keys and queries that a learned mask hides get gradients of 0") {
  Arguments x({5, 7});
  std::vector<float> numbers = x.mask.to_vector<float>();
  for (size_t key = 0; key < 7; ++key) numbers[2 * 7 + key] = -infinity;
  numbers[3] = -infinity;
  x.mask = Arguments::leaf(from_vector(numbers, {5, 7}));
  const auto got = x.gradients_of(attention(x.q, x.k, x.v, {.mask = x.mask}));
  for (const auto& each : got)
    for (const double d : each) CHECK(std::isfinite(d));
  for (size_t key = 0; key < 7; ++key) CHECK(got[3][2 * 7 + key] == 0);
  CHECK(got[3][3] == 0);
  CHECK(got[3][4] != 0);
}

TEST_CASE("with dropout a learned mask's gradient is that of the probabilities that were kept") {
  const Arguments x({3, 5, 7});
  const auto y_of = [&](const Tensor& mask) {
    manual_seed(21);
    return sum(mul(attention(x.q, x.k, x.v, {.mask = mask, .dropout = 0.4}), x.g));
  };
  const auto got = gradients(y_of(x.mask), {x.mask})[0].to_vector<float>();
  for (size_t i = 0; i < got.size(); i += 8) {
    constexpr float step = 0.01F;
    const auto moved = [&](float by) {
      std::vector<float> numbers = x.mask.to_vector<float>();
      numbers[i] += by;
      return y_of(from_vector(numbers, x.mask.shape())).item();
    };
    CHECK((moved(step) - moved(-step)) / (2 * step) == doctest::Approx(got[i]).epsilon(0.02));
  }
}

TEST_CASE("a learned mask has its own dtype, and packed heads give it the same gradient") {
  const Tensor qkv = hashed({2, 5, 3, 3, 8}, 6, -2, 2).requires_grad_();
  const Tensor mask = hashed({3, 5, 5}, 7, -3, 3).requires_grad_();
  const Tensor g = hashed({2, 5, 24}, 8);
  const auto part = [&](int i) { return transpose(select(qkv, 2, i), 1, 2); };
  const Tensor apart = attention(part(0), part(1), part(2), {.mask = mask});
  const Tensor joined = reshape(transpose(apart, 1, 2), {2, 5, 24});
  const auto want = gradients(sum(mul(joined, g)), {qkv, mask});
  const auto got = gradients(sum(mul(attention_packed(qkv, {.mask = mask}), g)), {qkv, mask});
  for (size_t i = 0; i < want.size(); ++i)
    CHECK(got[i].to_vector<float>() == want[i].to_vector<float>());

  const Tensor low = attention_packed(qkv.to(DType::bf16), {.mask = mask});
  const Tensor rounded = gradients(sum(mul(low, g)), {mask})[0];
  CHECK(rounded.dtype() == DType::f32);
  const auto exact = want[1].to(DType::f64).to_vector<double>();
  CHECK(largest_error(rounded.to(DType::f64).to_vector<double>(), exact) < 0.05);
}

TEST_CASE("a query whose keys are all hidden by a finite number sees all of them alike") {
  for (const double low : {-1e9, -2.5e38, double{std::numeric_limits<float>::lowest()}})
    for (const bool is_causal : {false, true}) {
      CAPTURE(low);
      Arguments x({5, 7});
      x.mask = Arguments::leaf(full({5, 7}, low));
      const Tensor hidden = is_causal ? equal(tril(ones({5, 7})), 0) : zeros({1}, {DType::boolean});
      const Tensor want = in_single_functions(x, 0.3, hidden);
      const Tensor got =
          attention(x.q, x.k, x.v, {.mask = x.mask, .causal = is_causal, .scale = 0.3});
      CHECK(largest_error(untracked::cast(got, DType::f64).to_vector<double>(),
                          untracked::cast(want, DType::f64).to_vector<double>()) < 1e-6);
      const auto slopes = x.gradients_of(want), found = x.gradients_of(got);
      for (size_t i = 0; i < slopes.size(); ++i) CHECK(largest_error(found[i], slopes[i]) < 2e-5);
    }
}

TEST_CASE("a mask that is changed before backward is an error") {
  const Tensor x = hashed({1, 2, 3, 4}, 1).requires_grad_();
  Tensor mask = zeros({3, 3});
  const Tensor y = sum(attention(x, x, x, {.mask = mask}));
  mask.fill_(1);
  CHECK(error_of([&] { y.backward(); }).find("was changed in place") != std::string::npos);
}
