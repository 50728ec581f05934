// Compares the tape's gradients with central differences in double.
#pragma once

#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/tensor/random/random.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <vector>

namespace booster::testing {

using Function = std::function<Tensor(const std::vector<Tensor>&)>;

// Returns a weighted sum of fn's result, so that every element of the gradient matters.
inline double weighted(const Tensor& y, const std::vector<double>& weights) {
  const auto values = y.to_vector<double>();
  double total = 0;
  for (size_t i = 0; i < values.size(); ++i) total += values[i] * weights[i];
  return total;
}

// Checks the gradient of fn at `inputs` (f64) with respect to each element of each input.
inline void check_gradients(const Function& fn, const std::vector<Tensor>& inputs,
                            double tolerance = 1e-6, double step = 1e-5) {
  std::vector<Tensor> leaves;
  for (const Tensor& input : inputs) leaves.push_back(input.clone().requires_grad_());
  const Tensor y = fn(leaves);
  Generator generator(99);
  const Tensor g = uniform(y.shape(), 0.5, 1.5, {.dtype = DType::f64}, generator);
  const auto weights = g.to_vector<double>();
  backward(y, {.grad = g});
  const NoGradGuard no_grad;
  for (size_t k = 0; k < leaves.size(); ++k) {
    REQUIRE(leaves[k].grad().defined());
    const auto gradient = leaves[k].grad().to_vector<double>();
    for (int64_t i = 0; i < leaves[k].numel(); ++i) {
      double& value = leaves[k].data<double>()[i];
      const double at = value;
      value = at + step;
      const double above = weighted(fn(leaves), weights);
      value = at - step;
      const double below = weighted(fn(leaves), weights);
      value = at;
      const double numeric = (above - below) / (2 * step);
      const double difference = std::abs(numeric - gradient[static_cast<size_t>(i)]);
      INFO("input " << k << ", element " << i << ": tape " << gradient[static_cast<size_t>(i)]
                    << ", differences " << numeric);
      CHECK(difference <= tolerance * (1 + std::abs(numeric)));
    }
  }
}

inline Tensor random_f64(const Shape& shape, double low = -2, double high = 2) {
  return uniform(shape, low, high, {.dtype = DType::f64});
}

}  // namespace booster::testing
