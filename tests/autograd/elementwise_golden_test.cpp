// Comparisons, and derivatives at points where PyTorch's dtype rules and its choices at kinks
// matter. Golden files: tests/golden/make_autograd.py.
#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "tests/golden_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <functional>
#include <optional>

using namespace booster;

namespace {

using Json = nlohmann::json;

Json golden(const std::string& name) {
  std::ifstream file(test::golden_folder() + "/autograd/" + name + ".json");
  return Json::parse(file);
}

DType dtype_named(const std::string& name) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64, DType::i32,
                            DType::u8, DType::boolean})
    if (name_of(dtype) == name) return dtype;
  FAIL("no dtype " << name);
  return {};
}

Tensor held(const std::vector<double>& values, const std::string& dtype) {
  const Tensor x = from_vector(values, {static_cast<int64_t>(values.size())});
  return untracked::cast(x, dtype_named(dtype));
}

// Returns the six comparisons as bits, as make_autograd.py writes them.
template <class B>
std::vector<int> truths(const Tensor& a, const B& b) {
  const Tensor all[6] = {equal(a, b),      not_equal(a, b), less(a, b),
                         less_equal(a, b), greater(a, b),   greater_equal(a, b)};
  std::vector<int> bits(static_cast<size_t>(a.numel()));
  for (int k = 0; k < 6; ++k) {
    CHECK(all[k].dtype() == DType::boolean);
    const auto truth = all[k].to_vector<uint8_t>();
    for (size_t i = 0; i < bits.size(); ++i) bits[i] |= truth[i] << k;
  }
  return bits;
}

bool same(double got, double want) {
  if (std::isnan(want)) return std::isnan(got);
  return got == want || std::abs(got - want) <= 1e-12 * std::abs(want);
}

// Checks first derivatives with create_graph, and the derivatives of each of them. The second
// derivative by argument `flat` alone is 0, whatever PyTorch gives.
void check_twice(const std::function<Tensor(const std::vector<Tensor>&)>& fn,
                 const std::vector<double>& at, const Json& want, std::optional<size_t> flat = {}) {
  std::vector<Tensor> xs;
  for (const double value : at) xs.push_back(scalar(value, {.dtype = DType::f64}).requires_grad_());
  const auto first = gradients(fn(xs), xs, {.create_graph = true});
  for (size_t i = 0; i < xs.size(); ++i) {
    CAPTURE(i);
    CHECK(same(first[i].item(), std::stod(want["first"][i].get<std::string>())));
    if (!first[i].requires_grad()) continue;
    const auto second = gradients(first[i], xs, {.retain_graph = true});
    for (size_t j = 0; j < xs.size(); ++j) {
      CAPTURE(j);
      const double got = second[j].defined() ? second[j].item() : 0;
      const bool is_flat = i == flat && j == flat;
      const double wanted = is_flat ? 0 : std::stod(want["second"][i][j].get<std::string>());
      INFO("got " << got << ", want " << wanted);
      CHECK(same(got, wanted));
    }
  }
}

}  // namespace

TEST_CASE("comparisons of every dtype with every other and with numbers are PyTorch's") {
  const Json all = golden("comparisons");
  const std::vector<double> values = all["values"];
  const std::vector<double> backwards(values.rbegin(), values.rend());
  int cases = 0;
  for (const Json& one : all["cases"]) {
    const std::string a = one["a"], b = one["b"], kind = one["kind"];
    CAPTURE(a);
    CAPTURE(b);
    CAPTURE(kind);
    const Tensor x = held(values, a);
    const auto want = one["truths"].get<std::vector<std::vector<int>>>();
    for (size_t i = 0; i < want.size(); ++i) {
      CAPTURE(i);
      if (kind == "tensors") CHECK(truths(x, held(backwards, b)) == want[i]);
      if (kind == "zero_dim") CHECK(truths(x, held(values, b)[static_cast<int64_t>(i)]) == want[i]);
      if (kind == "numbers") CHECK(truths(x, values[i]) == want[i]);
      ++cases;
    }
  }
  CHECK(cases == 64 + 64 * 9 + 8 * 9);
}

TEST_CASE("gradients where operands are equal in one dtype are PyTorch's") {
  for (const Json& one : golden("slopes_at_bounds")) {
    const std::string dtype = one["dtype"];
    CAPTURE(dtype);
    const auto slope = [&](auto fn) {
      const Tensor x = held(one["x"], dtype).requires_grad_();
      sum(fn(x)).backward();
      return x.grad().to_vector<double>();
    };
    const Tensor number = scalar(0.7, {.dtype = DType::f64});
    using Slopes = std::vector<double>;
    CHECK(slope([](const Tensor& x) { return clamp(x, 0.7, 0.8); }) == one["clamp"].get<Slopes>());
    CHECK(slope([](const Tensor& x) { return clamp(x, {}, 0.7); }) ==
          one["clamp_below"].get<Slopes>());
    const auto larger = one["maximum"].get<Slopes>(), smaller = one["minimum"].get<Slopes>();
    CHECK(slope([&](const Tensor& x) { return maximum(x, number); }) == larger);
    CHECK(slope([&](const Tensor& x) { return minimum(x, number); }) == smaller);
    CHECK(slope([](const Tensor& x) { return maximum(x, 0.7); }) == larger);
    CHECK(slope([](const Tensor& x) { return minimum(0.7, x); }) == smaller);
  }
}

TEST_CASE("powers at 0, 1 and below 0 have PyTorch's derivatives, twice") {
  for (const Json& one : golden("powers")) {
    const double a = one["a"], b = one["b"];
    CAPTURE(a);
    CAPTURE(b);
    // 0^b is the constant 0 for b > 0, but PyTorch's second derivative by b is nan.
    using Flat = std::optional<size_t>;
    const bool is_flat = a == 0 && b >= 0;
    check_twice([](const auto& x) { return pow(x[0], x[1]); }, {a, b}, one["tensors"],
                is_flat ? Flat(1) : Flat());
    check_twice([b](const auto& x) { return pow(x[0], b); }, {a}, one["exponent"]);
    check_twice([a](const auto& x) { return pow(a, x[0]); }, {b}, one["base"],
                is_flat ? Flat(0) : Flat());
  }
}
