// Level O1 of PaddlePaddle's static graph, as selected by Fleet's amp_configs: gray ops depend on
// the producers of their arguments. The programs and their dtypes come from PaddlePaddle.
#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/nn/functional.h"
#include "core/nn/layers.h"
#include "core/optim/optimizers.h"
#include "core/tensor/tensor.h"
#include "mixed_precision/strategies/fp16_paddle.h"
#include "tests/mixed_precision/golden_lines.h"

#include <doctest/doctest.h>

#include <functional>
#include <map>

using namespace booster;
using booster::testing::golden_lines;

namespace {

OpPolicy static_policy(PaddleLists lists = {}) {
  lists.static_graph = true;
  return paddle_policy(PaddleLevel::O1, DType::f16, lists);
}

Tensor data() { return full({4, 4}, 0.5); }
Tensor parameter() { return full({4, 4}, 0.5).requires_grad_(); }

std::vector<std::string> parts(const std::string& text, char between) {
  std::vector<std::string> result;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, between);) result.push_back(part);
  return result;
}

Tensor result(const std::string& op, const std::vector<Tensor>& x) {
  using Function = std::function<Tensor(const std::vector<Tensor>&)>;
#define UNARY(name)                                 \
  {                                                 \
#name, [](const auto& x) { return name(x[0]); } \
  }
#define BINARY(name)                                      \
  {                                                       \
#name, [](const auto& x) { return name(x[0], x[1]); } \
  }
  static const std::map<std::string, Function> functions = {
      UNARY(relu),     UNARY(tanh),
      UNARY(sigmoid),  UNARY(exp),
      UNARY(sqrt),     UNARY(abs),
      UNARY(square),   UNARY(gelu),
      BINARY(matmul),  BINARY(add),
      BINARY(sub),     BINARY(mul),
      BINARY(maximum), {"softmax", [](const auto& x) { return softmax(x[0], -1); }}};
#undef UNARY
#undef BINARY
  return functions.at(op)(x);
}

// For "relu:0:f16", runs the op on known tensors and returns its result's dtype.
std::string placed(const std::string& word, std::map<std::string, Tensor>& known) {
  const auto fields = parts(word, ':');
  std::vector<Tensor> arguments;
  for (const std::string& name : parts(fields[1], ',')) arguments.push_back(known.at(name));
  const Tensor y = result(fields[0], arguments);
  known[std::to_string(known.size() - 4)] = y;
  return fields[0] + ":" + fields[1] + ":" + name_of(y.dtype());
}

void check_programs() {
  const OpPolicy policy = static_policy();
  for (const auto& program : golden_lines("paddle_static.txt")) {
    std::map<std::string, Tensor> known = {
        {"d0", data()}, {"d1", data()}, {"w0", parameter()}, {"w1", parameter()}};
    const PolicyScope scope(&policy);
    std::vector<std::string> got;
    for (const std::string& word : program) got.push_back(placed(word, known));
    CHECK(got == program);
  }
}

}  // namespace

TEST_CASE("ops are placed as PaddlePaddle's static graph places them") {
  check_programs();
  const NoGradGuard evaluation;
  check_programs();
}

TEST_CASE("the last argument that an op made decides for a gray op; views are what they show") {
  const OpPolicy policy = static_policy();
  const PolicyScope scope(&policy);
  const Tensor product = matmul(data(), parameter()), wide = softmax(data(), -1);
  CHECK((product + wide).dtype() == DType::f32);
  CHECK((wide + product).dtype() == DType::f16);
  CHECK((wide + data()).dtype() == DType::f32);
  CHECK((data() + parameter()).dtype() == DType::f16);
  CHECK((transpose(wide, 0, 1) + data()).dtype() == DType::f32);
  CHECK((reshape(data(), {16}) + ones({16})).dtype() == DType::f16);
  CHECK(relu(cast(product, DType::f32)).dtype() == DType::f16);  // casts are ignored
  CHECK(gelu(product).dtype() == DType::f32);                    // on no list
}

TEST_CASE("a checkpointed function places its ops the same when it runs again") {
  const OpPolicy policy = static_policy();
  const PolicyScope scope(&policy);
  const Tensor w = parameter();
  std::vector<DType> seen;
  const auto part = [&](const std::vector<Tensor>& x) {
    const Tensor y = relu(x[0]);
    seen.push_back(y.dtype());
    return y;
  };
  const Tensor y = checkpoint(part, {exp(w)});
  CHECK((y + data()).dtype() == DType::f32);
  backward(sum(y));
  CHECK(seen == std::vector<DType>{DType::f32, DType::f32});
}

TEST_CASE("custom lists come before the gray one") {
  const OpPolicy policy = static_policy({.white = {"gelu"}, .black = {"relu"}});
  const PolicyScope scope(&policy);
  CHECK(gelu(data()).dtype() == DType::f16);
  CHECK(relu(matmul(data(), data())).dtype() == DType::f32);
}

TEST_CASE("batch normalisation goes by its input and keeps its own numbers in f32") {
  const OpPolicy policy = static_policy();
  const PolicyScope scope(&policy);
  BatchNorm2d norm(3);
  const Tensor image = ones({2, 3, 4, 4});
  CHECK(norm(image).dtype() == DType::f16);
  CHECK(norm(exp(image)).dtype() == DType::f32);
}

TEST_CASE("amp_configs at level O1 means the static graph, other options the dynamic one") {
  const auto sum_of_leaves = [](FP16PaddleOptions options) {
    const FP16Paddle paddle(options);
    const PolicyScope scope(paddle.policy({}));
    return (data() + parameter()).dtype();
  };
  CHECK(sum_of_leaves({.amp_configs = FleetAmpConfigs{}}) == DType::f16);
  CHECK(sum_of_leaves({}) == DType::f32);
}
