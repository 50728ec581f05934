// Results and gradients at nan, infinity and for empty inputs: PyTorch 2.15's values, which tests
// with random values do not reach.
#include "core/autograd/tape.h"
#include "core/nn/functional.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

using namespace booster;

namespace {

constexpr float inf = INFINITY, no_number = NAN;
using Numbers = std::vector<float>;

bool is_alike(const Tensor& x, const Numbers& want) {
  const auto got = x.to_vector<float>();
  bool alike = got.size() == want.size();
  for (size_t i = 0; alike && i < want.size(); ++i)
    alike = got[i] == want[i] || (std::isnan(got[i]) && std::isnan(want[i]));
  return alike;
}

Tensor leaf(const Numbers& numbers) {
  Tensor x = from_vector(numbers, {static_cast<int64_t>(numbers.size())});
  return x.requires_grad_();
}

using Function = std::function<Tensor(const Tensor&)>;

// Checks the gradient of the sum, by the kernels, and, if they exist, by the formulae on
// differentiable tensors.
enum class Formulae { kernels, both };
void check_slope(const char* name, const Numbers& at, const Function& function, const Numbers& want,
                 Formulae formulae = Formulae::both) {
  for (const bool create_graph : {false, true}) {
    if (create_graph && formulae == Formulae::kernels) continue;
    CAPTURE(name);
    CAPTURE(create_graph);
    const Tensor x = leaf(at);
    const Tensor slope = gradients(sum(function(x)), {x}, {.create_graph = create_graph})[0];
    CAPTURE(slope.to_string());
    CHECK(is_alike(slope, want));
  }
}

}  // namespace

TEST_CASE("gradients at nan and infinity are PyTorch's") {
  const Tensor one = ones({3}), zero = zeros({3});
  const Numbers special = {no_number, inf, -inf};
  check_slope("relu", special, [](const Tensor& x) { return relu(x); }, {1, 1, 0});
  check_slope("elu", special, [](const Tensor& x) { return elu(x); }, {1, 1, 0});
  check_slope("abs", special, [](const Tensor& x) { return abs(x); }, {0, 1, -1});
  check_slope("clamp", special, [](const Tensor& x) { return clamp(x, 0, 1); }, {0, 0, 0});
  check_slope("maximum", special, [&](const Tensor& x) { return maximum(x, one); }, {1, 1, 0});
  check_slope("maximum", special, [&](const Tensor& x) { return maximum(one, x); }, {1, 1, 0});
  check_slope("minimum", special, [&](const Tensor& x) { return minimum(x, one); }, {1, 0, 1});
  check_slope("maximum of equals", {1, 1, 2}, [&](const Tensor& x) { return maximum(x, one); },
              {0.5, 0.5, 1});
  check_slope("smooth_l1_loss", special,
              [&](const Tensor& x) { return smooth_l1_loss(x, zero, 1, Reduction::sum); },
              {no_number, 1, -1});
  check_slope("huber_loss", special,
              [&](const Tensor& x) { return huber_loss(x, zero, 2, Reduction::sum); },
              {no_number, 2, -2});
}

TEST_CASE("the gradient of a tensor's extreme goes to its nans, if there are some") {
  const Function largest = [](const Tensor&x) { return max(x); },
                 smallest = [](const Tensor&x) { return min(x); },
                 along = [](const Tensor&x) { return amax(x, {0}); };
  const auto check = [](const char* name, const Numbers& at, const Function& function,
                        const Numbers& want) {
    check_slope(name, at, function, want, Formulae::kernels);
  };
  check("max", {1, no_number, 3}, largest, {0, 1, 0});
  check("min", {no_number, 1, no_number}, smallest, {0.5, 0, 0.5});
  check("max", {2, 1, 2}, largest, {0.5, 0, 0.5});
  check("amax", {1, no_number, 3}, along, {no_number, no_number, no_number});
}

TEST_CASE("reductions of nothing give PyTorch's numbers") {
  const Tensor empty_rows = zeros({2, 0});
  CHECK(is_alike(logsumexp(empty_rows, 1), {-inf, -inf}));
  CHECK(logsumexp(empty_rows, 0).numel() == 0);
  for (const bool unbiased : {false, true}) {
    CHECK(is_alike(var(empty_rows, {1}, unbiased), {no_number, no_number}));
    CHECK(is_alike(stddev(empty_rows, {1}, unbiased), {no_number, no_number}));
  }
  CHECK(is_alike(stddev(ones({1}), {0}), {no_number}));
}

TEST_CASE("16-bit rms_norm adds f32's spacing to the mean square") {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    const Tensor x = full({1, 4}, 0x1p-11, {.dtype = dtype});
    const double want = 0x1p-11 / std::sqrt(0x1p-22 + 0x1p-23);
    CHECK(rms_norm(x, {4}).to_vector<double>()[0] == doctest::Approx(want).epsilon(0.004));
  }
}

TEST_CASE("indices may be i32") {
  const Tensor x = untracked::cast(arange(6), DType::f32).reshape({2, 3});
  const Tensor index = untracked::cast(from_vector(std::vector<int64_t>{2, 0}, {2, 1}), DType::i32);
  const Tensor places = index.reshape({2});
  CHECK(is_alike(gather(x, 1, index), {2, 3}));
  CHECK(is_alike(scatter(x, 1, index, 9), {0, 1, 9, 9, 4, 5}));
  CHECK(is_alike(scatter_add(x, 1, index, ones({2, 1})), {0, 1, 3, 4, 4, 5}));
  CHECK(is_alike(index_select(x, 1, places), {2, 0, 5, 3}));
  CHECK(is_alike(x[{Slice(), places}], {2, 0, 5, 3}));
}

TEST_CASE("a diagonal ends with the smaller dimension") {
  const Tensor x = untracked::cast(arange(6), DType::f32).reshape({2, 3});
  CHECK(is_alike(diagonal(x), {0, 4}));
  CHECK(is_alike(diagonal(x, 1, 0), {0, 4}));
  CHECK(diagonal(zeros({2, 0, 3})).shape() == Shape{3, 0});
  const Tensor leaf = x.clone().requires_grad_();
  sum(diagonal(leaf)).backward();
  CHECK(is_alike(leaf.grad(), {1, 0, 0, 0, 1, 0}));
  CHECK_THROWS_WITH_AS(diagonal(x, 1, -1), doctest::Contains("got 1 twice"), Error);
}

TEST_CASE("dropout of f64 keeps its digits, and a factor of pixels is not squared beyond int64") {
  const Tensor y = dropout(full({1000}, 1.0 / 3, {DType::f64}), 1e-4, true);
  int kept = 0;
  for (const double number : y.to_vector<double>()) {
    if (number == 0) continue;
    ++kept;
    CHECK(number == 1.0 / 3 * (1 / (1 - 1e-4)));
  }
  CHECK(kept > 900);
  CHECK_THROWS_WITH_AS(pixel_shuffle(ones({1, 4, 2, 2}), int64_t{1} << 32),
                       doctest::Contains("not a multiple of factor^2"), Error);
}

// Absent terms of the formula are skipped rather than multiplied by 0: infinity times 0 is nan.
TEST_CASE("in evaluation one infinity does not reach a channel's other gradients") {
  const Tensor x = from_vector<float>({1, 2, inf, 3}, {2, 2}).requires_grad_();
  const Tensor mean = zeros({2}), variance = ones({2});
  backward(sum(batch_norm(x, mean, variance, {}, {}, {.training = false, .eps = 0})));
  CHECK(is_alike(x.grad(), {1, 1, 1, 1}));
  const Tensor planes = cat({full({1, 1, 2, 2}, inf), ones({1, 1, 2, 2})}, 1);
  const Tensor image = planes.clone().requires_grad_();
  backward(sum(batch_norm(image, mean, variance, {}, {}, {.training = false, .eps = 0})));
  CHECK(is_alike(image.grad(), Numbers(8, 1)));
}

TEST_CASE("linear_gelu may have no output") {
  CHECK(linear_gelu(ones({2, 4}), ones({0, 4}), {}).shape() == Shape{2, 0});
}

TEST_CASE("a softmax of a tensor without dimensions is that of one number") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
    for (const int64_t dim : {0, -1}) {
      const Tensor x = scalar(5, {.dtype = dtype}).requires_grad_();
      const Tensor share = softmax(x, dim), logarithm = log_softmax(x, dim);
      CHECK(share.shape() == Shape{});
      CHECK(share.item() == 1);
      CHECK(logarithm.item() == 0);
      (share + logarithm).backward();
      CHECK(x.grad().item() == 0);
    }
  CHECK_THROWS_WITH_AS(softmax(scalar(5), 1), doctest::Contains("softmax: dimension out of range"),
                       Error);
}
