// New gradients overwrite gradients that have no other reference.
#include "core/autograd/overwrite.h"

#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/tensor/random/random.h"
#include "core/tensor/tensor.h"

#include <doctest/doctest.h>

using namespace booster;
using Values = std::vector<float>;

namespace {

Tensor numbers(const Values& values) {
  return from_vector(values, {static_cast<int64_t>(values.size())});
}

bool same_memory(const Tensor& a, const Tensor& b) { return a.view().data == b.view().data; }

}  // namespace

TEST_CASE("a gradient that nobody else can see gives its memory, in the shape that is asked for") {
  const NoGradGuard no_grad;
  const Tensor g = numbers({1, 2, 3, 4});
  const Tensor room = room_in_place_of(g, empty({2, 2}));
  CHECK(same_memory(room, g));
  CHECK(room.shape() == Shape{2, 2});
}

TEST_CASE(
    "a gradient that is held, viewed, lent, of another dtype or size or absent is left alone") {
  const NoGradGuard no_grad;
  const Tensor g = numbers({1, 2, 3, 4});
  const auto left_alone = [&](const Tensor& x, const Tensor& like) {
    return !same_memory(room_in_place_of(x, like), x);
  };
  {
    const Tensor held = g;
    CHECK(left_alone(g, g));
  }
  {
    const Tensor window = untracked::narrow(g, 0, 0, 2);
    CHECK(left_alone(g, empty({4})));
    CHECK(left_alone(window, empty({2})));
  }
  CHECK(left_alone(g, empty({4}, {DType::bf16, {}})));
  CHECK(left_alone(g, empty({5})));
  CHECK(room_in_place_of(Tensor(), empty({3})).numel() == 3);
  float lent[] = {1, 2};
  CHECK(left_alone(from_memory(lent, {2}, {}), empty({2})));
}

TEST_CASE("on a tape a gradient is never overwritten: its own gradient may need it") {
  const Tensor g = numbers({1, 2});
  CHECK_FALSE(same_memory(room_in_place_of(g, empty({2})), g));
}

TEST_CASE("the gradient that a program gives, and one that a hook keeps, stay as they were") {
  Tensor x = numbers({1, -1, 2}).requires_grad_();
  Tensor y = relu(x);
  Tensor kept;
  register_grad_hook(y, [&](const Tensor& g) {
    kept = g;
    return Tensor();
  });
  const Tensor given = numbers({5, 6, 7});
  backward(relu(y), {.grad = given});
  CHECK(given.to_vector<float>() == Values{5, 6, 7});
  CHECK(kept.to_vector<float>() == Values{5, 0, 7});
  CHECK(x.grad().to_vector<float>() == Values{5, 0, 7});
}

TEST_CASE("a gradient that flows two ways reaches both, and sums leave what was added alone") {
  Tensor x = numbers({2, -3}).requires_grad_();
  const Tensor y = x * 2;
  Tensor kept;
  register_grad_hook(y, [&](const Tensor& g) {
    kept = g;
    return Tensor();
  });
  const Tensor given = numbers({3, 3});
  backward(relu(y) + y, {.grad = given});
  CHECK(x.grad().to_vector<float>() == Values{12, 6});
  CHECK(kept.to_vector<float>() == Values{6, 3});
  CHECK(given.to_vector<float>() == Values{3, 3});
}
