// Scalar arguments for tensors whose dtype may not hold them: PyTorch's results and errors. Golden
// file: tests/golden/make_scalars.py.
#include "core/autograd/functions.h"
#include "tests/error_of.h"
#include "tests/golden_folder.h"

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <cmath>
#include <fstream>
#include <functional>
#include <map>

using namespace booster;

namespace {

using Json = nlohmann::json;
using ScalarCall = std::function<Tensor(const Tensor& x, double number)>;

const std::map<std::string, ScalarCall> scalar_calls = {
    {"full", [](const Tensor& x, double n) { return full({1}, n, {.dtype = x.dtype()}); }},
    {"fill_", [](const Tensor& x, double n) { return Tensor(x).fill_(n); }},
    {"masked_fill",
     [](const Tensor& x, double n) { return masked_fill(x, ones({1}, {DType::boolean}), n); }},
    {"scatter", [](const Tensor& x, double n) { return scatter(x, 0, arange(1), n); }},
    {"pad",
     [](const Tensor& x, double n) {
       return pad(x, {0, 1}, n)[1];
     }},
    {"clamp_low", [](const Tensor& x, double n) { return clamp(x, n, {}); }},
    {"clamp_high", [](const Tensor& x, double n) { return clamp(x, {}, n); }},
    {"add_", [](const Tensor& x, double n) { return Tensor(x).add_(x.clone(), n); }},
    {"mul_", [](const Tensor& x, double n) { return Tensor(x).mul_(n); }},
    {"add", [](const Tensor& x, double n) { return x + n; }},
    {"sub", [](const Tensor& x, double n) { return x - n; }},
    {"sub_from", [](const Tensor& x, double n) { return n - x; }},
    {"mul", [](const Tensor& x, double n) { return x * n; }},
    {"pow", [](const Tensor& x, double n) { return pow(x, n); }},
    {"linspace", [](const Tensor& x, double n) { return linspace(0, n, 2, {x.dtype()})[1]; }}};

double number_of(const Json& json) {
  return json.is_string() ? std::stod(json.get<std::string>()) : json.get<double>();
}

bool is_expected(double got, double want, DType dtype) {
  if (std::isnan(want)) return std::isnan(got);
  const double allowed = is_16_bit(dtype) ? 0x1p-7 : 1e-6;
  return got == want || std::abs(got - want) <= allowed * std::abs(want);
}

}  // namespace

TEST_CASE("a number that the dtype may not hold gives PyTorch's result or an error") {
  std::ifstream file(test::golden_folder() + "/autograd/scalars.json");
  const Json golden = Json::parse(file);
  for (const auto& [name, of_dtypes] : golden["results"].items())
    for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i64,
                              DType::i32, DType::u8, DType::boolean}) {
      const Json& wanted = of_dtypes[name_of(dtype)];
      for (size_t i = 0; i < wanted.size(); ++i) {
        const double number = number_of(golden["numbers"][i]);
        CAPTURE(name);
        CAPTURE(std::string(name_of(dtype)));
        CAPTURE(number);
        const Tensor x = untracked::cast(full({1}, 2), dtype);
        Tensor y;
        const std::string error = error_of([&] { y = scalar_calls.at(name)(x, number); });
        if (wanted[i] == "error") {
          CHECK(error != "");
        } else {
          CHECK(error == "");
          if (error.empty()) CHECK(is_expected(y.item(), number_of(wanted[i]), dtype));
        }
      }
    }
}

TEST_CASE("an error about a number that does not fit names it, the dtype and what that holds") {
  CHECK(error_of([] { full({2}, 300, {.dtype = DType::u8}); }) ==
        "full: the number is outside the dtype's range; got 300 for u8, want 0 to 255");
  const Tensor x = zeros({2}, {.dtype = DType::f16});
  CHECK(error_of([&] { masked_fill(x, ones({2}, {DType::boolean}), -1e9); }) ==
        "masked_fill: the number is outside the dtype's range; got -1000000000 for f16, want "
        "-65504 to "
        "65504");
  CHECK(contains(error_of([] { scalar(NAN, {.dtype = DType::i64}); }), "scalar: "));
}

TEST_CASE("a comparison with a number beyond f32 is one with infinity") {
  const Tensor x = from_vector<float>({1, INFINITY}, {2});
  CHECK(less(x, 1e39).to_vector<bool>() == std::vector<bool>{true, false});
  CHECK(equal(untracked::cast(x, DType::f16), 1e9).to_vector<bool>() ==
        std::vector<bool>{false, true});
}
