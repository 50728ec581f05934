// Member functions of tensors equal the free functions of the same name.
#include "core/autograd/backward.h"
#include "core/autograd/functions.h"
#include "tests/autograd/gradient_check.h"
#include "tests/on_gpu.h"

#include <doctest/doctest.h>

#include <sstream>
#include <type_traits>

using namespace booster;
using namespace booster::testing;

namespace {

// Returns the values, with a number instead of nan, which equals nothing: a function may be called
// outside of its domain.
std::vector<double> comparable(const Tensor& x) {
  return nan_to_num(x, -12345).to_vector<double>();
}

// Checks that values and gradients of both forms are bitwise equal.
template <class Member, class Function>
void check_same(const char* name, const Tensor& x, Member member, Function function) {
  CAPTURE(std::string(name));
  const Tensor a = x.clone().requires_grad_(), b = x.clone().requires_grad_();
  const Tensor y = member(a), z = function(b);
  CHECK(y.shape() == z.shape());
  CHECK(y.dtype() == z.dtype());
  CHECK(comparable(y) == comparable(z));
  if (!z.requires_grad()) return;
  const Tensor g = uniform(y.shape(), 0.5, 1.5, {.dtype = DType::f64});
  backward(y, {.grad = g});
  backward(z, {.grad = g});
  CHECK(comparable(a.grad()) == comparable(b.grad()));
}

}  // namespace

#define SAME(member, function)                               \
  check_same(                                                \
      #member, x, [&](const Tensor& x) { return x.member; }, \
      [&](const Tensor& x) { return function; })

TEST_CASE("every elementwise function is a member") {
  const Tensor x = random_f64({2, 3}, 0.2, 1.8), other = random_f64({3}, 0.2, 1.8);
#define UNARY(name, ...) SAME(name(), name(x));
#define BINARY(name, ...)            \
  SAME(name(other), name(x, other)); \
  SAME(name(1.5), name(x, 1.5));
#include "kernels/elementwise.def"
  SAME(clamp(0.5, 1.0), clamp(x, 0.5, 1.0));
  SAME(clamp(0.5), clamp(x, 0.5, {}));
}

TEST_CASE("reductions are members, over one dimension, several or all") {
  const Tensor x = random_f64({2, 3, 4});
  SAME(sum(), sum(x));
  SAME(sum(1), sum(x, {1}));
  SAME(sum({0, -1}, true), sum(x, {0, -1}, true));
  SAME(sum({}), sum(x));
  SAME(mean(-1, true), mean(x, {-1}, true));
  SAME(mean(), mean(x));
  SAME(var(0, false), var(x, {0}, false));
  SAME(stddev(), stddev(x, {}));
  SAME(norm(), norm(x));
  SAME(norm(1, false, 3), norm(x, {1}, false, 3));
  SAME(max(), amax(x));
  SAME(min(), amin(x));
  SAME(max(1).first, max(x, 1).first);
  SAME(min(-1, true).second, min(x, -1, true).second);
  SAME(argmax(), argmax(reshape(x, {24}), 0));
  SAME(argmin(), argmin(reshape(x, {24}), 0));
  SAME(argmax(0), argmax(x, 0));
  SAME(argmin(2, true), argmin(x, 2, true));
  SAME(cumsum(1), cumsum(x, 1));
}

TEST_CASE("rearrangements and products are members") {
  const Tensor x = random_f64({3, 4});
  SAME(reshape({2, -1}), reshape(x, {2, -1}));
  SAME(view({4, 3}), reshape(x, {4, 3}));
  SAME(flatten(), flatten(x));
  SAME(transpose(0, 1), transpose(x, 0, 1));
  SAME(t(), transpose(x, 0, 1));
  SAME(permute({1, 0}), permute(x, {1, 0}));
  SAME(unsqueeze(1).expand({3, 2, 4}), expand(unsqueeze(x, 1), {3, 2, 4}));
  SAME(unsqueeze(0).squeeze(0), x);
  SAME(t().contiguous(), contiguous(transpose(x, 0, 1)));
  SAME(matmul(x.t()), matmul(x, transpose(x, 0, 1)));
}

TEST_CASE("a view is one, or an error") {
  const Tensor x = zeros({3, 4});
  CHECK(x.view({12}).shares_storage(x));
  CHECK(x.t().view({4, 3, 1}).shares_storage(x));
  CHECK_THROWS_WITH_AS(x.t().view({12}), doctest::Contains("want reshape"), Error);
  CHECK(x.t().reshape({12}).shape() == Shape{12});
  CHECK_THROWS_WITH_AS(zeros({2, 2, 2}).t(), doctest::Contains("at most two"), Error);
  CHECK(zeros({5}).t().shape() == Shape{5});
}

TEST_CASE("clone keeps the gradient, and has memory of its own") {
  const Tensor x = Tensor(from_vector(std::vector<float>{1, 2, 3, 4}, {2, 2})).requires_grad_();
  const Tensor y = transpose(x, 0, 1).clone();
  CHECK(y.requires_grad());
  CHECK_FALSE(y.shares_storage(x));
  CHECK(y.is_contiguous());
  sum(y * y).backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>{2, 4, 6, 8});
  CHECK_FALSE(x.detach().clone().requires_grad());
  NoGradGuard no_grad;
  CHECK_FALSE(x.clone().requires_grad());
}

TEST_CASE("a second derivative goes through a clone") {
  const Tensor x = Tensor(from_vector(std::vector<double>{3}, {1})).requires_grad_();
  const Tensor g = gradients(pow(x.clone(), 3), {x}, {.create_graph = true})[0];
  sum(g).backward();
  CHECK(x.grad().item() == doctest::Approx(18));
}

TEST_CASE("GPU: a copy on another device keeps the gradient" * on_gpu()) {
  const Tensor x = Tensor(from_vector(std::vector<float>{1, 2}, {2})).requires_grad_();
  const Tensor there = x.to(gpu);
  CHECK(there.requires_grad());
  CHECK_FALSE(there.is_leaf());
  sum((there * there).to(Device())).backward();
  CHECK(x.grad().device() == Device());
  CHECK(x.grad().to_vector<float>() == std::vector<float>{2, 4});
}

TEST_CASE("operators: in place, comparisons, printing") {
  Tensor x = from_vector(std::vector<float>{1, 2, 3}, {3});
  const Tensor tracked = Tensor(from_vector(std::vector<float>{1, 1, 1}, {3})).requires_grad_();
  x += tracked;
  x -= tracked * 3;
  x *= 2;
  CHECK(x.to_vector<float>() == std::vector<float>{-2, 0, 2});
  sum(x).backward();
  CHECK(tracked.grad().to_vector<float>() == std::vector<float>{-4, -4, -4});
  const Tensor y = from_vector(std::vector<float>{0, 0, 0}, {3});
  using Mask = std::vector<bool>;
  const auto mask = [](const Tensor& m) {
    const auto bytes = m.to(DType::i64).to_vector<int64_t>();
    return Mask(bytes.begin(), bytes.end());
  };
  CHECK(mask(x > y) == Mask{false, false, true});
  CHECK(mask(x >= 0) == Mask{false, true, true});
  CHECK(mask(x < 0) == Mask{true, false, false});
  CHECK(mask(x <= y) == Mask{true, true, false});
  std::ostringstream text;
  text << y;
  CHECK(text.str() == y.to_string());
}

TEST_CASE("a part of a tensor cannot be assigned to, which would change nothing") {
  CHECK(std::is_assignable_v<Tensor&, Tensor>);
  CHECK_FALSE(std::is_assignable_v<Tensor, Tensor>);
}
