#include "core/autograd/functions.h"

#include "core/tensor/memory/allocator.h"

#include "tests/autograd/gradient_check.h"
#include "tests/draws.h"

#include <algorithm>
#include <limits>
#include <random>

using namespace booster;
using namespace booster::testing;
using Values = std::vector<float>;

TEST_CASE("gradients of shape functions") {
  const Tensor x = random_f64({2, 3, 4});
  check_gradients([](const auto& in) { return reshape(in[0], {4, -1}) * 2; }, {x});
  check_gradients([](const auto& in) { return permute(in[0], {2, 0, 1}) * 2; }, {x});
  check_gradients([](const auto& in) { return transpose(in[0], 0, -1) * 2; }, {x});
  check_gradients([](const auto& in) { return flatten(in[0], 1) * 2; }, {x});
  check_gradients([](const auto& in) { return narrow(in[0], 1, 1, 2) * 2; }, {x});
  check_gradients([](const auto& in) { return select(in[0], 2, -1) * 2; }, {x});
  check_gradients([](const auto& in) { return expand(in[0], {5, 2, 3, 4}) * 2; }, {x});
  check_gradients([](const auto& in) { return squeeze(unsqueeze(in[0], 1), 1) * 2; }, {x});
  check_gradients([](const auto& in) { return contiguous(transpose(in[0], 0, 1)) * 2; }, {x});
  check_gradients(
      [](const auto& in) {
        return cat({in[0], in[1]}, 1) * 2;
      },
      {x, random_f64({2, 1, 4})});
  check_gradients(
      [](const auto& in) {
        return stack({in[0], in[1]}, -1) * 2;
      },
      {x, random_f64({2, 3, 4})});
  check_gradients([](const auto& in) { return split(in[0], 2, 2)[1] * 2; }, {x});
  const Tensor index = from_vector<int64_t>({2, 0, 2, 1}, {4});
  check_gradients([&](const auto& in) { return index_select(in[0], 1, index) * 2; }, {x});
  const Tensor places = from_vector<int64_t>({2, 0, 2, 1, 0, 1}, {2, 3, 1});
  check_gradients([&](const auto& in) { return gather(in[0], 2, places) * 2; }, {x});
}

TEST_CASE("gradients of reductions") {
  const Tensor x = random_f64({3, 4, 5});
  check_gradients([](const auto& in) { return sum(in[0]); }, {x});
  check_gradients([](const auto& in) { return sum(in[0], {1}) * 2; }, {x});
  check_gradients([](const auto& in) { return sum(in[0], {0, -1}, true) * 2; }, {x});
  check_gradients([](const auto& in) { return mean(in[0], {0}) * 2; }, {x});
  check_gradients([](const auto& in) { return var(in[0], {1}); }, {x});
  check_gradients([](const auto& in) { return amax(in[0], {1}); }, {x});
  check_gradients([](const auto& in) { return amin(in[0]); }, {x});
  check_gradients([](const auto& in) { return max(in[0], -1).first; }, {x});
  check_gradients([](const auto& in) { return logsumexp(in[0], 1); }, {x});
  check_gradients([](const auto& in) { return norm(in[0]); }, {x});
  check_gradients([](const auto& in) { return sum(transpose(in[0], 0, 2), {1}); }, {x});
}

TEST_CASE("reductions of every kind equal plain loops") {
  const Tensor x = from_vector<float>({3, -1, 2, 5, 5, -7}, {2, 3});
  CHECK(sum(x, {0}).to_vector<float>() == Values{8, 4, -5});
  CHECK(sum(x, {1}).to_vector<float>() == Values{4, 3});
  CHECK(mean(x).item() == doctest::Approx(7.0 / 6));
  CHECK(amax(x, {1}).to_vector<float>() == Values{3, 5});
  CHECK(amin(x, {0}).to_vector<float>() == Values{3, -1, -7});
  CHECK(argmax(x, 1).to_vector<int64_t>() == std::vector<int64_t>{0, 0});
  CHECK(argmax(x, 0).to_vector<int64_t>() == std::vector<int64_t>{1, 1, 0});
  CHECK(sum(ones({3}, {.dtype = DType::boolean})).dtype() == DType::i64);
  CHECK(sum(full({5000}, 1, {.dtype = DType::f16})).item() == 5000);
  CHECK(sum(zeros({0, 3})).item() == 0);
}

TEST_CASE("a long f32 sum is rounded once, in any layout") {
  const Tensor x = full({1000003}, 0.1);
  CHECK(sum(x).item() == doctest::Approx(1000003 * double(0.1f)).epsilon(6e-8));
  const Tensor y = full({1000, 1003}, 0.1);
  for (double v : sum(y, {0}).to_vector<double>())
    CHECK(v == doctest::Approx(1000 * double(0.1f)).epsilon(6e-8));
}

TEST_CASE("amax shares the gradient among ties") {
  Tensor x = from_vector<float>({1, 3, 3}, {3}).requires_grad_();
  backward(amax(x));
  CHECK(x.grad().to_vector<float>() == Values{0, 0.5, 0.5});
}

TEST_CASE("matmul follows torch for vectors, matrices and broadcast batches") {
  auto counting = [](const Shape& shape) {
    return untracked::reshape(untracked::cast(arange(shape.numel()), DType::f32), shape);
  };
  CHECK(matmul(counting({3}), counting({3})).item() == 5);
  CHECK(matmul(counting({2, 3}), counting({3})).to_vector<float>() == Values{5, 14});
  CHECK(matmul(counting({3}), counting({3, 2})).to_vector<float>() == Values{10, 13});
  CHECK(matmul(counting({2, 2, 3}), counting({3, 2})).shape() == Shape{2, 2, 2});
  CHECK(matmul(counting({4, 1, 2, 3}), counting({5, 3, 2})).shape() == Shape{4, 5, 2, 2});
  CHECK(matmul(zeros({2, 0}), zeros({0, 3})).to_vector<float>() == Values(6, 0));
}

TEST_CASE("gradients of matrix products") {
  check_gradients([](const auto& in) { return matmul(in[0], in[1]); },
                  {random_f64({3}), random_f64({3})});
  check_gradients([](const auto& in) { return matmul(in[0], in[1]); },
                  {random_f64({2, 3}), random_f64({3, 4})});
  check_gradients([](const auto& in) { return matmul(in[0], in[1]); },
                  {random_f64({2, 2, 3}), random_f64({3, 4})});
  check_gradients([](const auto& in) { return matmul(in[0], in[1]); },
                  {random_f64({2, 1, 2, 3}), random_f64({3, 3, 2})});
  check_gradients([](const auto& in) { return matmul(transpose(in[0], 0, 1), in[1]); },
                  {random_f64({3, 2}), random_f64({3, 4})});
  check_gradients([](const auto& in) { return linear(in[0], in[1], in[2]); },
                  {random_f64({2, 2, 3}), random_f64({4, 3}), random_f64({4})});
  check_gradients([](const auto& in) { return linear(in[0], in[1]); },
                  {random_f64({3}), random_f64({4, 3})});
}

TEST_CASE("wrong shapes and dtypes are errors that say what was wanted") {
  CHECK_THROWS_WITH(matmul(zeros({2, 3}), zeros({4, 5})),
                    "matmul: inner sizes differ; got (2, 3) and (4, 5)");
  CHECK_THROWS_WITH(matmul(zeros({2, 3}), zeros({3, 5}, {.dtype = DType::bf16})),
                    "matmul: dtypes differ; got f32 and bf16");
  CHECK_THROWS_AS(linear(zeros({2, 3}), zeros({4, 5})), Error);
  CHECK_THROWS_AS(linear(zeros({2, 3}), zeros({4, 3}), zeros({3})), Error);
  CHECK_THROWS_AS(cat({zeros({2, 3}), zeros({3, 4})}, 0), Error);
  CHECK_THROWS_WITH(index_select(zeros({3}), 0, from_vector<int64_t>({0, 3}, {2})),
                    "index_select: index out of range; got 3 at position 1, want 0 to 2");
  CHECK_THROWS_AS(sum(zeros({2}), {0, 0}), Error);
  CHECK_THROWS_AS(mean(zeros({2}, {.dtype = DType::i64})), Error);
  CHECK_THROWS_AS(add(Tensor(), zeros({1})), Error);
}

TEST_CASE("clamp keeps integers exactly, up to the ends of their range") {
  const std::vector<int64_t> numbers = {INT64_MIN, -(int64_t{1} << 60) - 1, -3, 0, 5, INT64_MAX};
  const Tensor x = from_vector(numbers, {6});
  CHECK(clamp(x, -2, 4).to_vector<int64_t>() == std::vector<int64_t>{-2, -2, -2, 0, 4, 4});
  CHECK(clamp(x, -0x1p61, 0x1p62).to_vector<int64_t>() ==
        std::vector<int64_t>{-(int64_t{1} << 61), numbers[1], -3, 0, 5, int64_t{1} << 62});
  const Tensor bytes = from_vector<int64_t>({0, 7, 255}, {3}).to(DType::u8);
  CHECK(clamp(bytes, -5, 9).to_vector<int64_t>() == std::vector<int64_t>{0, 7, 9});
  CHECK(clamp(cast(x, DType::i32), -2, 4).dtype() == DType::i32);
  CHECK(clamp(cast(x, DType::i32), -2, 4.5).dtype() == DType::f32);
}

TEST_CASE("the bounds of clamp pass as values, and end the gradient") {
  const std::vector<float> values = {-2, -0.5, 0, 0.5, 2, NAN};
  const Tensor x = from_vector(values, {6}).requires_grad_();
  const Tensor y = clamp(x, -0.5, 0.5);
  sum(y).backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>{0, 0, 1, 0, 0, 0});
  const auto clamped = y.to_vector<float>();
  CHECK(std::vector<float>(clamped.begin(), clamped.end() - 1) ==
        std::vector<float>{-0.5, -0.5, 0, 0.5, 0.5});
  CHECK(std::isnan(clamped.back()));
}

TEST_CASE("the deviation of constant rows has gradient 0, of others its own") {
  const Tensor x = from_vector<float>({3, 3, 3, 1, 2, 4}, {2, 3}).requires_grad_();
  const Tensor y = stddev(x, {1});
  CHECK(y.to_vector<float>()[0] == 0);
  sum(y).backward();
  const auto slope = x.grad().to_vector<float>();
  for (size_t i = 0; i < 3; ++i) CHECK(slope[i] == 0);
  const double mean = 7.0 / 3, deviation = std::sqrt(7.0 / 3);
  for (size_t i = 3; i < 6; ++i)
    CHECK(slope[i] ==
          doctest::Approx((x.to_vector<float>()[i] - mean) / (2 * deviation)).epsilon(1e-5));
}

TEST_CASE("variances name themselves in errors") {
  const Tensor whole = zeros({2}, {.dtype = DType::i64});
  CHECK_THROWS_WITH_AS(var(whole, {}), "var: want a floating tensor; got i64", Error);
  CHECK_THROWS_WITH_AS(stddev(whole, {}), "stddev: want a floating tensor; got i64", Error);
}

TEST_CASE("borders that cannot be are refused") {
  const Tensor line = zeros({4}), rows = zeros({2, 4});
  const auto refused = [](const Tensor& x, const std::vector<int64_t>& sizes, const char* mode,
                          const char* part) {
    CAPTURE(std::string(mode));
    CHECK_THROWS_WITH_AS(pad(x, sizes, mode), doctest::Contains(part), Error);
  };
  CHECK_THROWS_WITH_AS(pad(line, {-5, 3}), doctest::Contains("crops more"), Error);
  CHECK_THROWS_WITH_AS(pad(line, {-2, -3}), doctest::Contains("crops more"), Error);
  CHECK_THROWS_WITH_AS(pad(line, {6, -5}), doctest::Contains("crops more"), Error);
  CHECK(pad(line, {-4, 3}, 7).to_vector<float>() == std::vector<float>{7, 7, 7});
  CHECK(pad(line, {-3, -1}).numel() == 0);
  CHECK_THROWS_AS(pad(line, {1}), Error);
  CHECK_THROWS_AS(pad(line, {1, 1, 1, 1}), Error);
  refused(rows, {1, 1}, "reflected", "did you mean reflect?");
  refused(line, {1, 1}, "reflect", "after one or two others");
  refused(rows, {1, 1, 1, 1}, "circular", "after one or two others");
  refused(rows, {4, 0}, "reflect", "at most 3");
  refused(rows, {0, 5}, "circular", "at most 4");
  refused(rows, {-2, -3}, "replicate", "is empty before or after");
  refused(rows, {-3, 2}, "circular", "at most 1");
  refused(zeros({2, 0}), {1, 1}, "replicate", "is empty before or after");
  CHECK(pad(rows, {-5, 2}, "replicate").shape() == Shape{2, 1});
}

TEST_CASE("the norm of zeros has gradient 0") {
  for (const double p : {2.0, 3.0, 1.0, 0.0, double(INFINITY)}) {
    const Tensor x = zeros({2, 3}).requires_grad_();
    sum(norm(x, {1}, false, p)).backward();
    CHECK(x.grad().to_vector<float>() == std::vector<float>(6));
  }
}

TEST_CASE("a nan is in the gradient of its norm") {
  for (const double p : {2.0, 3.0}) {
    const Tensor x = from_vector<float>({NAN, 1}, {2}).requires_grad_();
    norm(x, {0}, false, p).backward();
    for (const float slope : x.grad().to_vector<float>()) CHECK(std::isnan(slope));
  }
}

TEST_CASE("relu keeps its result for the backward pass, not its argument") {
  const Tensor x = ones({1024}).requires_grad_();
  Tensor argument = x * 2.0;
  const Tensor y = relu(argument);
  const int64_t before = allocator_stats().live_bytes;
  argument = {};
  CHECK(before - allocator_stats().live_bytes == 1024 * sizeof(float));
  sum(y).backward();
  CHECK(x.grad().to_vector<float>() == std::vector<float>(1024, 2));
}

TEST_CASE("squares of truth are integers") {
  const Tensor y = square(from_vector<bool>({false, true}, {2}));
  CHECK(y.dtype() == DType::i64);
  CHECK(y.to_vector<int64_t>() == std::vector<int64_t>{0, 1});
}

TEST_CASE("a change in place that does not fit is called by its name") {
  Tensor x = zeros({2, 3});
  CHECK_THROWS_WITH_AS(x.copy_(zeros({4, 2, 3})), doctest::Contains("copy_: "), Error);
  CHECK_THROWS_WITH_AS(x.add_(zeros({2, 4})), doctest::Contains("add_: "), Error);
}

TEST_CASE("parts of tensors that do not exist are refused") {
  const Tensor x = zeros({2, 5});
  CHECK_THROWS_WITH_AS(slice(x, 1, 0, 5, 0), doctest::Contains("slice: step"), Error);
  CHECK_THROWS_WITH_AS(split(x, {2, 2}, 1), doctest::Contains("add up to 5"), Error);
  CHECK_THROWS_WITH_AS(pad(x, {1}), doctest::Contains("pad: too many or odd sizes"), Error);
  CHECK_THROWS_WITH_AS(pad(x, {-3, -3}), doctest::Contains("crops more"), Error);
  CHECK_THROWS_WITH_AS(flip(x, {0, -2}), doctest::Contains("occurs twice"), Error);
  CHECK_THROWS_WITH_AS(masked_fill(x, zeros({2, 5}), 1), doctest::Contains("bool"), Error);
  CHECK_THROWS_WITH_AS(one_hot(arange(4), 3),
                       "one_hot: index out of range; got 3 at position 3, want 0 to 2", Error);
  CHECK_THROWS_WITH_AS(one_hot(from_vector<int64_t>({0, 1, -2, 5}, {2, 2}), 3),
                       "one_hot: index out of range; got -2 at position 2, want 0 to 2", Error);
  CHECK(slice(x, 1, 4, 2).shape() == Shape{2, 0});
  CHECK(one_hot(arange(3), 3).to_vector<int64_t>() ==
        std::vector<int64_t>{1, 0, 0, 0, 1, 0, 0, 0, 1});
}

TEST_CASE("the smallest integers have no negative, and are found all the same") {
  const auto check = [](auto least) {
    using Int = decltype(least);
    const Tensor x = from_vector<Int>({5, least, 7, static_cast<Int>(least + 1)}, {4});
    CHECK(argmin(x, 0).template to_vector<int64_t>() == std::vector<int64_t>{1});
    CHECK(min(x, 0).first.template to_vector<Int>() == std::vector<Int>{least});
    CHECK(argmax(x, 0).template to_vector<int64_t>() == std::vector<int64_t>{2});
  };
  check(std::numeric_limits<int32_t>::min());
  check(std::numeric_limits<int64_t>::min());
  check(uint8_t{0});
}

// As torch: integer tensors give the whole part, an integer number is an error.
TEST_CASE("negative powers of integers") {
  const auto whole = [](std::vector<int64_t> numbers) {
    return from_vector(numbers, {static_cast<int64_t>(numbers.size())});
  };
  CHECK(pow(whole({2, 3, 0, 1, -1, -1, -5, 2}), whole({-1, -2, -1, -7, -2, -3, -1, 3}))
            .to_vector<int64_t>() == std::vector<int64_t>{0, 0, 0, 1, 1, -1, 0, 8});
  CHECK_THROWS_WITH_AS(pow(whole({2}), -1.0), doctest::Contains("negative powers of integers"),
                       Error);
  CHECK(pow(whole({4}), -0.5).to_vector<float>() == std::vector<float>{0.5});
}

TEST_CASE("chunks of any number, and one ellipsis a term") {
  const auto parts = chunk(ones({3}), std::numeric_limits<int64_t>::max());
  CHECK(parts.size() == 3);
  const Tensor x = ones({2, 2, 2});
  CHECK_THROWS_WITH_AS(einsum("......->", {x}), doctest::Contains("one ellipsis"), Error);
}

TEST_CASE("an empty dimension is split into one part, as by torch") {
  CHECK(split(ones({0, 3}), 2, 0).size() == 1);
  CHECK(split(ones({4, 3}), 2, 0).size() == 2);
}

TEST_CASE("a leaf that was frozen after the forward pass gets no gradient") {
  const Tensor w = ones({2}).requires_grad_(), v = ones({2}).requires_grad_();
  const Tensor y = sum(w * v);
  Tensor(w).requires_grad_(false);
  backward(y);
  CHECK_FALSE(w.grad().defined());
  CHECK(v.grad().to_vector<float>() == Values{1, 1});
}

TEST_CASE("whole numbers in place stay whole") {
  Tensor x = from_vector<int64_t>({1, 2, 3}, {3});
  CHECK_THROWS_WITH_AS(x.mul_(1.5), doctest::Contains("mul_: an in-place result"), Error);
  CHECK_THROWS_WITH_AS(x.add_(ones({3})), doctest::Contains("add_: an in-place result"), Error);
  CHECK_THROWS_WITH_AS(x.add_(x, 0.5), doctest::Contains("add_: an in-place result"), Error);
  CHECK(x.mul_(2).add_(x).to_vector<int64_t>() == std::vector<int64_t>{4, 8, 12});
}

TEST_CASE("the deviation of numbers whose squares are no f32 is PyTorch's") {
  for (const float size : {1e20f, 1e-23f, 1e-30f}) {
    CAPTURE(size);
    const Tensor x = from_vector<float>({size, -size, 0}, {3}).requires_grad_();
    const Tensor y = stddev(x, {});
    CHECK(y.item() == doctest::Approx(size).epsilon(1e-6));
    y.backward();
    const auto slope = x.grad().to_vector<float>();
    CHECK(slope[0] == doctest::Approx(0.5));
    CHECK(slope[1] == doctest::Approx(-0.5));
    CHECK(slope[2] == 0);
  }
}

TEST_CASE("the variance of equal numbers is 0, and of numbers a few spacings apart as in f64") {
  for (const double constant : {123456.7, -3e-5, 1e18, 0.1}) {
    CAPTURE(constant);
    for (const DType dtype : {DType::f32, DType::f64}) {
      const Tensor equal_numbers = full({768, 3}, constant, {.dtype = dtype});
      for (const auto& dims : std::vector<std::vector<int64_t>>{{0}, {1}, {}}) {
        CHECK(max(var(equal_numbers, dims)).item() == 0);
        CHECK(max(stddev(equal_numbers, dims)).item() == 0);
      }
    }
    const double spacing = std::ldexp(1, std::ilogb(constant) - 23);
    const Tensor steps = random_f64({500}) * 4;
    const Tensor x = cast(steps * spacing + constant, DType::f32);
    const double want = var(cast(x, DType::f64), {}).item();
    CHECK(var(x, {}).item() == doctest::Approx(want).epsilon(1e-5));
  }
}

namespace {

void check_equals_copy(const Tensor& got, const Tensor& want) {
  REQUIRE(got.shape() == want.shape());
  const auto a = got.to_vector<double>(), b = want.to_vector<double>();
  for (size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-12));
}

}  // namespace

TEST_CASE("logsumexp and norm of a tensor in another memory order equal those of a copy") {
  for (const unsigned seed : draws(220)) {
    std::mt19937 random(seed);
    std::vector<int> order = {0, 1, 2};
    std::shuffle(order.begin(), order.end(), random);
    const auto draw = [&](unsigned choices) { return static_cast<int64_t>(random() % choices); };
    const Tensor base = random_f64({2 + draw(4), 5, 1 + draw(7)});
    const int64_t dim = draw(3);
    std::vector<int64_t> dims = {dim - 3};
    if (draw(2)) dims.push_back((dim + 1) % 3);
    const bool keeps = draw(2) == 1;
    const auto check = [&](auto&& reduced) {
      const Tensor x = base.clone().requires_grad_();
      const Tensor copy = base.clone().requires_grad_();
      const Tensor y = reduced(permute(x, order)), want = reduced(contiguous(permute(copy, order)));
      check_equals_copy(y, want);
      const Tensor weights = square(want.detach()) + 0.5;
      backward(sum(y * weights));
      backward(sum(want * weights));
      check_equals_copy(x.grad(), copy.grad());
    };
    check([&](const Tensor& x) { return logsumexp(x, dims, keeps); });
    check([&](const Tensor& x) { return norm(x, dims, keeps); });
    check([&](const Tensor& x) { return norm(x, {}, keeps, 3); });
  }
}
