// Normalisations of numbers that are close to each other and far from zero.
#include "core/autograd/tape.h"
#include "core/nn/functional.h"
#include "core/tensor/channels_last.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

using namespace booster;

namespace {

using FarFunction = std::function<Tensor(const Tensor&)>;

struct FarResults {
  Tensor y, dx;
};

FarResults far_results(const FarFunction& normalize, const Tensor& x, const Tensor& g) {
  const Tensor leaf = x.detach().requires_grad_();
  const Tensor y = normalize(leaf);
  sum(y * cast(g, y.dtype())).backward();
  return {cast(y.detach(), DType::f64), cast(leaf.grad(), DType::f64)};
}

double largest_difference(const Tensor& a, const Tensor& b) { return max(abs(a - b)).item(); }

struct FarCase {
  const char* name;
  FarFunction normalize;
};

// `eps`, because numbers a few spacings of 1e3 apart have small variances.
std::vector<FarCase> far_cases(double eps) {
  return {{"layer norm",
           [=](const Tensor& x) {
             return layer_norm(x, {12, 10}, {}, {}, eps);
           }},
          {"group norm", [=](const Tensor& x) { return group_norm(x, 2, {}, {}, eps); }},
          {"batch norm",
           [=](const Tensor& x) {
             return batch_norm(x, {}, {}, {}, {}, {.training = true, .eps = eps});
           }},
          {"batch norm, channels last",
           [=](const Tensor& x) {
             return batch_norm(channels_last(x), {}, {}, {}, {}, {.training = true, .eps = eps});
           }},
          {"batch norm and relu", [=](const Tensor& x) {
             return batch_norm_relu(channels_last(x), {}, {}, {}, {},
                                    {.training = true, .eps = eps});
           }}};
}

}  // namespace

TEST_CASE("normalisations of numbers a few spacings apart, and their gradients, are those in f64") {
  constexpr double constant = 1234.5, spacing = 0x1p-13;
  const Tensor steps = cast(uniform({6, 4, 12, 10}, -4, 5), DType::i64);
  const Tensor x = cast(steps, DType::f64) * spacing + constant, g = normal({6, 4, 12, 10});
  for (const auto& [name, normalize] : far_cases(1e-2 * spacing * spacing)) {
    CAPTURE(name);
    const FarResults want = far_results(normalize, x, g);
    const FarResults got = far_results(normalize, cast(x, DType::f32), g);
    CHECK(largest_difference(got.y, want.y) < 2e-5);
    CHECK(largest_difference(got.dx, want.dx) * spacing < 2e-5);
  }
}

TEST_CASE("normalisations of a large constant are 0, in every order of memory") {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const Tensor x = full({6, 4, 12, 10}, 123456.7, {.dtype = dtype});
    for (const auto& [name, normalize] : far_cases(1e-5)) {
      CAPTURE(name);
      CHECK(max(abs(normalize(x))).item() == 0);
    }
    CHECK(max(abs(layer_norm(full({768}, 123456.7, {.dtype = dtype}), {768}))).item() == 0);
  }
}
