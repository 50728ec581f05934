// Einstein sums against a plain loop over all labels, for random equations.
#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/tensor/random/random.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>

using namespace booster;

namespace {

struct Operand {
  std::string labels;
  Tensor x;
};

// Returns the product of all operands' elements, summed over the labels that the result lacks.
std::vector<double> plain_sum(const std::vector<Operand>& operands, const std::string& result,
                              const std::map<char, int64_t>& sizes) {
  std::string labels = result;
  for (const auto& [label, size] : sizes)
    if (labels.find(label) == labels.npos) labels += label;
  int64_t total = 1, inner = 1;
  for (size_t i = 0; i < labels.size(); ++i) {
    total *= sizes.at(labels[i]);
    if (i >= result.size()) inner *= sizes.at(labels[i]);
  }
  std::vector<std::vector<double>> numbers;
  for (const Operand& operand : operands) numbers.push_back(operand.x.to_vector<double>());
  std::vector<double> sums(static_cast<size_t>(inner ? total / inner : 0));
  for (int64_t flat = 0; flat < total; ++flat) {
    std::map<char, int64_t> at;
    int64_t rest = flat;
    for (size_t i = labels.size(); i-- > 0;) {
      at[labels[i]] = rest % sizes.at(labels[i]);
      rest /= sizes.at(labels[i]);
    }
    double product = 1;
    for (size_t k = 0; k < operands.size(); ++k) {
      int64_t offset = 0;
      for (size_t i = 0; i < operands[k].labels.size(); ++i) {
        const int64_t size = operands[k].x.shape()[static_cast<int>(i)];
        offset = offset * size + (size == 1 ? 0 : at[operands[k].labels[i]]);
      }
      product *= numbers[k][static_cast<size_t>(offset)];
    }
    sums[static_cast<size_t>(flat / inner)] += product;
  }
  return sums;
}

}  // namespace

TEST_CASE("einsum is the plain sum for equations drawn at random") {
  std::mt19937 random(7);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int turn = 0; turn < 300; ++turn) {
    std::map<char, int64_t> sizes;
    std::vector<Operand> operands;
    std::string equation, all;
    const int count = 1 + below(3);
    for (int k = 0; k < count; ++k) {
      std::string letters = "abcde";
      std::shuffle(letters.begin(), letters.end(), random);
      letters.resize(static_cast<size_t>(below(4)));
      Shape shape;
      for (const char label : letters) {
        sizes.try_emplace(label, 1 + below(3));
        shape.push_back(below(5) == 0 ? 1 : sizes[label]);
        if (all.find(label) == all.npos) all += label;
      }
      while (!letters.empty() && below(3) == 0) {  // a repeated label: a diagonal
        const int again = below(shape.ndim());
        letters += letters[static_cast<size_t>(again)];
        shape.push_back(shape[again]);
      }
      operands.push_back({letters, uniform(shape, -1, 1, {.dtype = DType::f64})});
      equation += (k ? "," : "") + letters;
    }
    std::shuffle(all.begin(), all.end(), random);
    const int kept = below(static_cast<int>(all.size()) + 1);
    const std::string result = all.substr(0, static_cast<size_t>(kept));
    equation += "->" + result;
    // A label's size is the size of its largest dimension.
    for (auto& [label, size] : sizes) {
      size = 1;
      for (const Operand& operand : operands)
        if (const size_t at = operand.labels.find(label); at != std::string::npos)
          size = std::max(size, operand.x.shape()[static_cast<int>(at)]);
    }
    CAPTURE(equation);
    std::vector<Tensor> tensors;
    for (const Operand& operand : operands) tensors.push_back(operand.x);
    const Tensor y = einsum(equation, tensors);
    const auto got = y.to_vector<double>(), want = plain_sum(operands, result, sizes);
    REQUIRE(got.size() == want.size());
    for (size_t i = 0; i < got.size(); ++i)
      CHECK(got[i] == doctest::Approx(want[i]).epsilon(1e-12));
  }
}

TEST_CASE("einsum keeps whole numbers whole and follows the policy of products") {
  const Tensor a = from_vector(std::vector<int64_t>{1, 2, 3, 4}, {2, 2});
  CHECK(einsum("ij,jk->ik", {a, a}).to_vector<int64_t>() == std::vector<int64_t>{7, 10, 15, 22});
  OpPolicy policy{.lower = DType::bf16};
  policy.set(Op::einsum, OpClass::lower_precision);
  const PolicyScope scope(&policy);
  CHECK(einsum("ij,jk", {ones({2, 2}), ones({2, 2})}).dtype() == DType::bf16);
}

TEST_CASE("a letter that stands twice without a result is summed over") {
  const Tensor a = from_vector(std::vector<double>{1, 2, 3, 4}, {2, 2});
  CHECK(einsum("ii", {a}).item() == 5);
  CHECK(einsum("ii,jj", {a, a}).item() == 25);
  CHECK(einsum("iij", {ones({2, 2, 3})}).to_vector<float>() == std::vector<float>{2, 2, 2});
}

TEST_CASE("einsum says what is wrong with an equation") {
  const Tensor a = zeros({2, 3}), b = zeros({3, 4});
  const auto refused = [](const std::string& equation, const std::vector<Tensor>& tensors,
                          const char* part) {
    CHECK_THROWS_WITH_AS(einsum(equation, tensors), doctest::Contains(part), Error);
  };
  refused("ij,jk->ik", {a}, "has 2 terms; got 1 operands");
  refused("ij,jk->ik", {a, a}, "sizes of 'j' differ; got 3 and 2");
  refused("ijk,jk->ik", {a, b}, "does not match an operand of shape (2, 3)");
  refused("ii->i", {a}, "sizes of 'i' differ; got 2 and 3");
  refused("ij->ii", {a}, "'i' occurs twice");
  refused("ij->ik", {a}, "'k' occurs only in the result");
  refused("i1->i", {a}, "wrong subscript");
  refused("ij", {Tensor()}, "undefined");
  refused("", {}, "at least one operand");
}
