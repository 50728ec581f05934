// In-place functions on tensors that share memory with themselves or with their inputs.
#include "core/tensor/tensor.h"

#include <doctest/doctest.h>

#include <vector>

using namespace booster;

TEST_CASE("a change in place by a view of the same memory reads what was there before") {
  const auto numbers = [] {
    return untracked::reshape(untracked::cast(arange(600 * 600), DType::f32), {600, 600});
  };
  const auto values = [](const Tensor& x) { return x.to_vector<float>(); };
  const Tensor before = numbers(), turned = untracked::transpose(before, 0, 1).clone();
  CHECK(values(numbers().copy_(before)) == values(before));
  Tensor x = numbers();
  x.copy_(untracked::transpose(x, 0, 1));
  CHECK(values(x) == values(turned));
  x = numbers();
  x.add_(untracked::transpose(x, 0, 1), 2);
  CHECK(values(x) == values(before.clone().add_(turned, 2)));
  x = numbers();
  x.add_(untracked::select(x, 0, 1));  // one row, added to all rows
  CHECK(values(x) == values(before.clone().add_(untracked::select(before, 0, 1))));
  x = numbers();
  untracked::narrow(x, 0, 1, 599).add_(untracked::narrow(x, 0, 0, 599));
  CHECK(values(untracked::narrow(x, 0, 1, 599)) ==
        values(untracked::narrow(before, 0, 1, 599).clone().add_(
            untracked::narrow(before, 0, 0, 599))));
  x = numbers();
  x.add_(x);
  CHECK(values(x) == values(before.clone().mul_(2)));
}

TEST_CASE("a tensor with several elements at one place is not changed in place") {
  const Tensor one = ones({1}), line = ones({9});
  Tensor wide = untracked::expand(one, {3});
  CHECK_THROWS_WITH_AS(wide.add_(ones({3})), doctest::Contains("add_: several elements"), Error);
  CHECK_THROWS_WITH_AS(wide.copy_(ones({3})), doctest::Contains("copy_: several elements"), Error);
  CHECK_THROWS_WITH_AS(wide.mul_(2), doctest::Contains("want a clone()"), Error);
  CHECK(wide.fill_(4).to_vector<float>() == std::vector<float>{4, 4, 4});  // the same value for all
  Tensor windows = untracked::strided(line, {4, 3}, {2, 1}, 0);
  CHECK_THROWS_WITH_AS(windows.add_(ones({4, 3})), doctest::Contains("several elements"), Error);
  // Neither stride exceeds the other's extent, yet no two elements overlap: 0, 2, 3, 5.
  untracked::strided(line, {2, 2}, {3, 2}, 0).mul_(2);
  CHECK(line.to_vector<float>() == std::vector<float>{2, 1, 2, 2, 1, 2, 1, 1, 1});
}
