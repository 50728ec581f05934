// Reading, writing and sorting by index, against plain loops, and their errors.
#include "core/autograd/functions.h"
#include "core/autograd/leaf_gradients.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/tape.h"
#include "core/tensor/random/random.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace booster;

namespace {

Tensor index_of(const std::vector<int64_t>& numbers, const Shape& shape) {
  return from_vector(numbers, shape);
}

}  // namespace

TEST_CASE("indices outside are errors that say where") {
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_WITH_AS(scatter_add(x, 1, index_of({0, 3}, {1, 2}), ones({1, 2})),
                       "scatter_add: index out of range; got 3 at position 1, want 0 to 2", Error);
  CHECK_THROWS_WITH_AS(scatter(x, 0, index_of({-1}, {1, 1}), 1.0),
                       "scatter: index out of range; got -1 at position 0, want 0 to 1", Error);
  CHECK_THROWS_WITH_AS((x[{Slice(), index_of({2, -3, 1, -4}, {2, 2})}]),
                       "index: index out of range; got -4 at position 3, want -3 to 2", Error);
  CHECK_THROWS_AS(scatter(x, 1, index_of({0}, {1, 1}), ones({1, 1}, {.dtype = DType::f64})), Error);
  CHECK_THROWS_AS(scatter(x, 1, index_of({0}, {1}), ones({1})), Error);
  CHECK_THROWS_AS(scatter(x, 1, index_of({0, 0, 0}, {3, 1}), ones({3, 1})), Error);
  CHECK_THROWS_AS(scatter(x, 1, index_of({0, 0}, {1, 2}), ones({1, 1})), Error);
  CHECK_THROWS_AS(scatter(x, 1, zeros({1, 1}), 1.0), Error);
  CHECK_THROWS_AS(topk(x, 4, 1), Error);
  CHECK_THROWS_AS(sort(x, 2), Error);
  CHECK_THROWS_AS(x[2], Error);
}

TEST_CASE("the last of several numbers for one place stays, and an empty index changes nothing") {
  const Tensor x = zeros({4}), numbers = from_vector(std::vector<float>{1, 2, 3}, {3});
  CHECK(scatter(x, 0, index_of({2, 0, 2}, {3}), numbers).to_vector<float>() ==
        std::vector<float>{2, 0, 3, 0});
  CHECK(scatter_add(x, 0, index_of({2, 0, 2}, {3}), numbers).to_vector<float>() ==
        std::vector<float>{2, 0, 4, 0});
  CHECK(scatter(x, 0, index_of({}, {0}), numbers).to_vector<float>() == std::vector<float>(4));
  CHECK(x.to_vector<float>() == std::vector<float>(4));
}

TEST_CASE("sort gives PyTorch's order of ties and nans, and indices that belong to the values") {
  const Tensor x = from_vector(std::vector<float>{2, NAN, 1, 2, -0.0F, 0}, {6});
  CHECK(argsort(x).to_vector<int64_t>() == std::vector<int64_t>{4, 5, 2, 0, 3, 1});
  CHECK(argsort(x, 0, true).to_vector<int64_t>() == std::vector<int64_t>{1, 0, 3, 2, 4, 5});
  const Tensor y = uniform({5, 7, 3});
  for (const int64_t dim : {0, 1, -1}) {
    const auto [values, index] = sort(y, dim, true);
    CHECK(gather(y, dim, index).to_vector<float>() == values.to_vector<float>());
    const auto [best, at] = topk(y, 2, dim);
    CHECK(best.to_vector<float>() == narrow(values, dim, 0, 2).to_vector<float>());
    CHECK(at.to_vector<int64_t>() == narrow(index, dim, 0, 2).to_vector<int64_t>());
    CHECK(topk(y, 0, dim).first.numel() == 0);
  }
  CHECK(sort(zeros({2, 0})).first.shape() == Shape{2, 0});
}

TEST_CASE("cumsum of whole numbers and booleans is i64") {
  const Tensor x = from_vector(std::vector<uint8_t>{200, 100, 3}, {3});
  CHECK(cumsum(x, 0).dtype() == DType::i64);
  CHECK(cumsum(x, 0).to_vector<int64_t>() == std::vector<int64_t>{200, 300, 303});
  CHECK(cumsum(greater(from_vector(std::vector<float>{1, -1, 2}, {3}), 0.0), 0)
            .to_vector<int64_t>() == std::vector<int64_t>{1, 1, 2});
}

TEST_CASE("cumsum under torch's policy for GPUs returns f32, and a bf16 gradient") {
  OpPolicy policy{.lower = DType::bf16};
  policy.set(Op::cumsum, OpClass::fp32_result);
  const PolicyScope scope(&policy);
  const Tensor x = untracked::cast(ones({300}), DType::bf16).requires_grad_();
  const Tensor y = cumsum(x, 0);
  CHECK(y.dtype() == DType::f32);
  CHECK(y[-1].item() == 300);
  backward(y[299]);
  CHECK(x.grad().dtype() == DType::bf16);
  CHECK(sum(x.grad()).item() == 300);
}

TEST_CASE("x[i] and x.to(dtype) are recorded") {
  const Tensor x = from_vector(std::vector<float>{1, 2, 3, 4}, {2, 2}).requires_grad_();
  const Tensor y = x[-1][0].to(DType::f64);
  CHECK(y.dtype() == DType::f64);
  CHECK(y.item() == 3);
  y.backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>{0, 0, 1, 0});
  CHECK(x.to(DType::f32).same_body(x));
}

TEST_CASE("unbind and split are one node, whose unused parts get zeros") {
  const Tensor x = from_vector(std::vector<float>{1, 2, 3, 4, 5, 6}, {3, 2}).requires_grad_();
  backward(sum(square(unbind(x)[1])));
  CHECK(x.grad().to_vector<float>() == std::vector<float>{0, 0, 6, 8, 0, 0});
  clear_grad(x);
  backward(sum(split(x, 2)[1] * 3));
  CHECK(x.grad().to_vector<float>() == std::vector<float>{0, 0, 0, 0, 3, 3});
}
