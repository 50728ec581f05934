// In-place calls on the tape: written values keep their gradients, or the call throws.
#include "core/autograd/functions.h"
#include "core/autograd/leaf_gradients.h"
#include "core/autograd/tape.h"
#include "core/tensor/random/random.h"
#include "tests/error_of.h"
#include "tests/on_gpu.h"

#include <doctest/doctest.h>

#include <random>

using namespace booster;

namespace {

using Values = std::vector<float>;

Tensor tracked(const Values& values) {
  return Tensor(from_vector(values, {static_cast<int64_t>(values.size())})).requires_grad_();
}

}  // namespace

TEST_CASE("what is added to an untracked tensor in place keeps its gradient") {
  const Tensor x = tracked({1, 2});
  Tensor total = zeros({});
  total.add_(sum(x * x));
  CHECK(total.requires_grad());
  (total + sum(x)).backward();
  CHECK(x.grad().to_vector<float>() == Values{3, 5});
}

TEST_CASE("what is copied into a buffer keeps its gradient, through its dtype and its shape") {
  const Tensor x = tracked({1, 2});
  Tensor buffer = zeros({3, 2}, {.dtype = DType::f64});
  buffer.copy_(x * 3);
  sum(buffer).backward();
  CHECK(x.grad().dtype() == DType::f32);
  CHECK(x.grad().to_vector<float>() == Values{9, 9});
}

TEST_CASE("a result that was changed in place has the gradients of what it became") {
  const Tensor x = tracked({1, 2}), y = tracked({3, 4});
  Tensor z = x * 5;
  z.mul_(2).add_(y, -3).add_(z);  // 2 (10 x - 3 y)
  sum(z).backward();
  CHECK(x.grad().to_vector<float>() == Values{20, 20});
  CHECK(y.grad().to_vector<float>() == Values{-6, -6});
  clear_grad(x);
  z = x * 5;
  z.zero_().add_(x, 7);
  sum(z).backward();
  CHECK(x.grad().to_vector<float>() == Values{7, 7});
  clear_grad(x);
  z = x * 5;
  z.copy_(ones({2}));
  sum(z).backward();
  CHECK(x.grad().to_vector<float>() == Values{0, 0});
}

// The same program twice: in-place, and with functions that return their result.
TEST_CASE("drawn calls in place have the gradients of the functions that return a result") {
  std::mt19937 random(5);
  for (int round = 0; round < 100; ++round) {
    CAPTURE(round);
    const Tensor a = normal({2, 3}, 0, 1, {DType::f64}).requires_grad_(),
                 b = normal({3}, 0, 1, {DType::f64}).requires_grad_();
    Tensor in_place = zeros({2, 3}, {DType::f64}), returned = in_place.clone();
    for (int step = 0; step < 6; ++step) {
      const Tensor source = random() % 2 ? a * b : b.exp();
      const double factor = static_cast<int>(random() % 5) - 2;
      switch (random() % 5) {
        case 0: in_place.copy_(source), returned = expand(source, {2, 3}) * 1; break;
        case 1: in_place.mul_(factor), returned = returned * factor; break;
        case 2: in_place.fill_(factor), returned = returned * 0 + factor; break;
        default: in_place.add_(source, factor), returned = returned + source * factor;
      }
    }
    const Tensor last_in_place = sum(square(in_place) * a), last = sum(square(returned) * a);
    CHECK(last_in_place.item() == doctest::Approx(last.item()));
    // Both graphs share saved tensors, so neither may be freed.
    const GradientOptions keep = {.retain_graph = true, .create_graph = true};
    const auto got = gradients(last_in_place, {a, b}, keep), want = gradients(last, {a, b}, keep);
    const auto is_alike = [](const Tensor& x, const Tensor& y) {  // undefined: zeros
      if (!x.defined() && !y.defined()) return true;
      const Tensor one = x.defined() ? x : zeros_like(y), other = y.defined() ? y : zeros_like(x);
      return amax(abs(one - other)).item() <= 1e-9 * (1 + amax(abs(other)).item());
    };
    for (size_t i = 0; i < 2; ++i) CHECK(is_alike(got[i], want[i]));
    const auto again = [&](const Tensor& slope) {
      return gradients(sum(square(slope) * a), {a, b}, keep);
    };
    const auto second = again(got[0]), second_wanted = again(want[0]);
    for (size_t i = 0; i < 2; ++i) CHECK(is_alike(second[i], second_wanted[i]));
  }
}

TEST_CASE("a gradient that cannot follow an in-place change is an error, not lost") {
  const Tensor x = tracked({1, 2});
  Tensor weight = tracked({3, 4});
  CHECK(contains(error_of([&] { weight.add_(x); }), "add_: a leaf that requires gradients"));
  Tensor buffer = zeros({2, 2});
  CHECK(contains(error_of([&] { buffer[0].copy_(x); }), "copy_: the tape cannot record"));
  const Tensor row = buffer[0];
  CHECK(contains(error_of([&] { buffer.add_(x); }), "add_: the tape cannot record"));
  const Tensor y = x * 2, part = y[0];
  CHECK(contains(error_of([&] { Tensor(part).mul_(2); }), "mul_: the tape cannot record"));
  CHECK(contains(error_of([&] { Tensor(exp(y)).fill_(2); }), "fill_: the tape cannot record"));
  CHECK(buffer.to_vector<float>() == Values{0, 0, 0, 0});
  Tensor result = x * 2;
  CHECK(contains(error_of([&] { fill_uniform(result, 0, 1); }),
                 "uniform: the tape cannot record draws into a result"));
}

TEST_CASE("what is written by a detached handle is no part of the other one's graph") {
  const Tensor x = tracked({1, 2}), weight = tracked({3, 4});
  weight.detach().copy_(x);
  CHECK(weight.to_vector<float>() == Values{1, 2});
  CHECK(weight.is_leaf());
  sum(weight * x).backward();
  CHECK(x.grad().to_vector<float>() == Values{1, 2});
  Tensor handle = zeros({2}).detach();
  sum(handle.add_(x, 3)).backward();
  CHECK(x.grad().to_vector<float>() == Values{4, 5});
}

TEST_CASE("without gradients in-place changes are not recorded, whatever they read") {
  const Tensor x = tracked({1, 2});
  Tensor buffer = zeros({2, 2}), weight = tracked({3, 4});
  {
    const NoGradGuard no_grad;
    buffer[0].copy_(x);
    buffer.add_(x);
    weight.copy_(x);
  }
  CHECK_FALSE(buffer.requires_grad());
  CHECK(buffer.to_vector<float>() == Values{2, 4, 1, 2});
  CHECK(weight.is_leaf());
  buffer.add_(x.detach());
  buffer[1].copy_(x.detach());
  CHECK_FALSE(buffer.requires_grad());
  Tensor whole = zeros({2}, {.dtype = DType::i64});
  whole.copy_(x);  // integers have no gradients
  CHECK_FALSE(whole.requires_grad());
}

TEST_CASE("GPU: what is added in place on a device keeps its gradient" * on_gpu()) {
  const Tensor x = Tensor(from_vector<float>({1, 2}, {2}).to(gpu)).requires_grad_();
  Tensor total = zeros({}, {.device = gpu});
  total.add_(sum(x * x));
  (total + sum(x)).backward();
  CHECK(x.grad().to_vector<float>() == Values{3, 5});
  Tensor here = zeros({2});
  CHECK(contains(error_of([&] { here.copy_(x); }), "copy_: the tape cannot record"));
}
