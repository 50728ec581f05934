// Functions of a dimension, for a tensor without dimensions: PyTorch 2.15 accepts 0 and -1, as for
// a vector of one element, or refuses both.
#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "tests/error_of.h"

#include <doctest/doctest.h>

#include <cmath>
#include <functional>

using namespace booster;

namespace {

struct DimCase {
  const char* name;
  std::function<Tensor(const Tensor& x, int64_t dim)> call;
  double value;      // for input 5
  double slope = 1;  // derivative of the result; none for integers
  Shape shape = {};
};

Tensor first() { return scalar(0, {.dtype = DType::i64}); }
Tensor three(const Tensor& like) { return scalar(3, {.dtype = like.dtype()}); }

const DimCase takes_none[] = {
    {"sum", [](const Tensor& x, int64_t d) { return sum(x, {d}); }, 5},
    {"sum, kept", [](const Tensor& x, int64_t d) { return sum(x, {d}, true); }, 5},
    {"mean", [](const Tensor& x, int64_t d) { return mean(x, {d}); }, 5},
    {"var", [](const Tensor& x, int64_t d) { return var(x, {d}); }, NAN, NAN},
    {"var of all", [](const Tensor& x, int64_t d) { return var(x, {d}, false); }, 0, 0},
    {"stddev", [](const Tensor& x, int64_t d) { return stddev(x, {d}); }, NAN, NAN},
    {"amax", [](const Tensor& x, int64_t d) { return amax(x, {d}); }, 5},
    {"amin", [](const Tensor& x, int64_t d) { return amin(x, {d}); }, 5},
    {"max", [](const Tensor& x, int64_t d) { return max(x, d).first; }, 5},
    {"max, kept", [](const Tensor& x, int64_t d) { return max(x, d, true).first; }, 5},
    {"min", [](const Tensor& x, int64_t d) { return min(x, d).first; }, 5},
    {"max's index", [](const Tensor& x, int64_t d) { return max(x, d).second; }, 0},
    {"argmax", [](const Tensor& x, int64_t d) { return argmax(x, d); }, 0},
    {"argmin", [](const Tensor& x, int64_t d) { return argmin(x, d); }, 0},
    {"logsumexp", [](const Tensor& x, int64_t d) { return logsumexp(x, d); }, 5},
    {"norm", [](const Tensor& x, int64_t d) { return norm(x, {d}); }, 5},
    {"largest norm", [](const Tensor& x, int64_t d) { return norm(x, {d}, false, INFINITY); }, 5},
    {"cumsum", [](const Tensor& x, int64_t d) { return cumsum(x, d); }, 5},
    {"sort", [](const Tensor& x, int64_t d) { return sort(x, d).first; }, 5},
    {"sort's index", [](const Tensor& x, int64_t d) { return sort(x, d).second; }, 0},
    {"argsort", [](const Tensor& x, int64_t d) { return argsort(x, d); }, 0},
    {"topk", [](const Tensor& x, int64_t d) { return topk(x, 1, d).first; }, 5},
    {"topk of none", [](const Tensor& x, int64_t d) { return topk(x, 0, d).first; }, 5},
    {"flip", [](const Tensor& x, int64_t d) { return flip(x, {d}); }, 5},
    {"squeeze", [](const Tensor& x, int64_t d) { return squeeze(x, d); }, 5},
    {"transpose", [](const Tensor& x, int64_t d) { return transpose(x, d, 0); }, 5},
    {"unsqueeze", [](const Tensor& x, int64_t d) { return unsqueeze(x, d); }, 5, 1, {1}},
    {"flatten", [](const Tensor& x, int64_t d) { return flatten(x, d); }, 5, 1, {1}},
    {"gather", [](const Tensor& x, int64_t d) { return gather(x, d, first()); }, 5},
    {"gather by a vector",
     [](const Tensor& x, int64_t d) { return gather(x, d, arange(1)); },
     5,
     1,
     {1}},
    {"index_select", [](const Tensor& x, int64_t d) { return index_select(x, d, first()); }, 5},
    {"index_select by a vector",
     [](const Tensor& x, int64_t d) { return index_select(x, d, arange(1)); }, 5},
    {"scatter", [](const Tensor& x, int64_t d) { return scatter(x, d, first(), three(x)); }, 3, 0},
    {"scatter of a number", [](const Tensor& x, int64_t d) { return scatter(x, d, first(), 3); }, 3,
     0},
    {"scatter_add", [](const Tensor& x, int64_t d) { return scatter_add(x, d, first(), three(x)); },
     8},
};

const DimCase refuses_none[] = {
    {"narrow", [](const Tensor& x, int64_t d) { return narrow(x, d, 0, 1); }, 0},
    {"select", [](const Tensor& x, int64_t d) { return select(x, d, 0); }, 0},
    {"slice", [](const Tensor& x, int64_t d) { return slice(x, d, 0); }, 0},
    {"unbind", [](const Tensor& x, int64_t d) { return unbind(x, d)[0]; }, 0},
    {"split", [](const Tensor& x, int64_t d) { return split(x, 1, d)[0]; }, 0},
    {"chunk", [](const Tensor& x, int64_t d) { return chunk(x, 1, d)[0]; }, 0},
    {"cat",
     [](const Tensor& x, int64_t d) {
       return cat({x, x}, d);
     },
     0},
    {"diagonal", [](const Tensor& x, int64_t d) { return diagonal(x, d, 0); }, 0},
    {"size", [](const Tensor& x, int64_t d) { return full({x.size(d)}, 1); }, 0},
};

bool is_value(double got, double want) {
  return std::isnan(want) ? std::isnan(got) : got == doctest::Approx(want);
}

}  // namespace

TEST_CASE("dimensions 0 and -1 of a tensor without any are those of a vector of one element") {
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16})
    for (const int64_t dim : {0, -1})
      for (const DimCase& one : takes_none) {
        CAPTURE(std::string(one.name));
        CAPTURE(dim);
        const Tensor x = scalar(5, {.dtype = dtype}).requires_grad_();
        const Tensor y = one.call(x, dim);
        CHECK(y.shape() == one.shape);
        CHECK(is_value(y.item(), one.value));
        if (!is_floating(y.dtype())) continue;
        sum(y).backward();
        CHECK(is_value(x.grad().item(), one.slope));
      }
}

TEST_CASE("other dimensions of a tensor without any are errors") {
  const Tensor x = scalar(5);
  for (const DimCase& one : takes_none)
    for (const int64_t dim : {1, -2}) {
      CAPTURE(std::string(one.name));
      CHECK(contains(error_of([&] { one.call(x, dim); }), "dimension out of range"));
    }
  CHECK_THROWS_WITH_AS(sum(x, {0, -1}), doctest::Contains("occurs twice"), Error);
  CHECK_THROWS_WITH_AS(flip(x, {0, -1}), doctest::Contains("occurs twice"), Error);
  CHECK_THROWS_AS(topk(x, 2, 0), Error);
  CHECK_THROWS_WITH_AS(index_select(x, 0, arange(2)),
                       "index_select: wrong shape of index; got 2, want one element", Error);
  CHECK_THROWS_WITH_AS(gather(x, 0, scalar(1, {.dtype = DType::i64})),
                       "gather: index out of range; got 1 at position 0, want 0 to 0", Error);
}

TEST_CASE("what cuts a dimension refuses a tensor without any") {
  for (const DimCase& one : refuses_none)
    for (const int64_t dim : {0, -1}) {
      CAPTURE(std::string(one.name));
      CHECK(contains(error_of([&] { one.call(scalar(5), dim); }), std::string(one.name) + ": "));
    }
}

TEST_CASE("a position without dimensions reads one element, or one slice") {
  const Tensor x = from_vector<float>({1, 2, 3, 4}, {2, 2}), one = scalar(1, {DType::i64});
  CHECK(gather(x[0], 0, one).shape() == Shape{});
  CHECK(gather(x[0], 0, one).item() == 2);
  CHECK(index_select(x, 0, one).to_vector<float>() == std::vector<float>{3, 4});
  CHECK(index_select(x, 0, one).shape() == Shape{1, 2});
}
