// Every differentiable function with undefined tensors, which are errors, and with empty tensors.
// Results and gradients of empty tensors follow the usual shape rules.
#include "core/autograd/functions.h"
#include "core/autograd/leaf_gradients.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/overwrite.h"
#include "core/autograd/policy_dtypes.h"
#include "core/autograd/tape.h"

#include <doctest/doctest.h>

#include <functional>
#include <random>

using namespace booster;

namespace {

using Arguments = std::vector<Tensor>;

// A function of tensors, called with each of them undefined in turn.
struct Function {
  const char* name;
  size_t arguments;
  std::function<void(const Arguments&)> call;
};

std::vector<Function> all_functions() {
  std::vector<Function> all = {
#define UNARY(name, ...) {#name, 1, [](const Arguments& a) { name(a[0]); }},
#define BINARY(name, ...)                                  \
  {#name, 2, [](const Arguments& a) { name(a[0], a[1]); }}, \
  {#name, 1, [](const Arguments& a) { name(a[0], 2); }},    \
  {#name, 1, [](const Arguments& a) { name(2, a[0]); }},
#define COMPARE(name, ...)                                 \
  {#name, 2, [](const Arguments& a) { name(a[0], a[1]); }}, \
  {#name, 1, [](const Arguments& a) { name(a[0], 2); }},
#include "kernels/elementwise.def"
      {"clamp", 1, [](const Arguments& a) { clamp(a[0], 0, 1); }},
      {"where", 3, [](const Arguments& a) { where(a[0], a[1], a[2]); }},
      {"promoted", 2, [](const Arguments& a) { promoted(a[0], a[1]); }},
      {"reshape", 1, [](const Arguments& a) { reshape(a[0], {1}); }},
      {"flatten", 1, [](const Arguments& a) { flatten(a[0]); }},
      {"permute", 1, [](const Arguments& a) { permute(a[0], {0}); }},
      {"transpose", 1, [](const Arguments& a) { transpose(a[0], 0, 0); }},
      {"expand", 1, [](const Arguments& a) { expand(a[0], {2}); }},
      {"sum_to", 1, [](const Arguments& a) { sum_to(a[0], {1}); }},
      {"unsqueeze", 1, [](const Arguments& a) { unsqueeze(a[0], 0); }},
      {"squeeze", 1, [](const Arguments& a) { squeeze(a[0], 0); }},
      {"narrow", 1, [](const Arguments& a) { narrow(a[0], 0, 0, 1); }},
      {"select", 1, [](const Arguments& a) { select(a[0], 0, 0); }},
      {"contiguous", 1, [](const Arguments& a) { contiguous(a[0]); }},
      {"cat", 2, [](const Arguments& a) { cat({a[0], a[1]}); }},
      {"stack", 2, [](const Arguments& a) { stack({a[0], a[1]}); }},
      {"split", 1, [](const Arguments& a) { split(a[0], 1); }},
      {"index_select", 2, [](const Arguments& a) { index_select(a[0], 0, a[1]); }},
      {"gather", 2, [](const Arguments& a) { gather(a[0], 0, a[1]); }},
      {"sum", 1, [](const Arguments& a) { sum(a[0]); }},
      {"mean", 1, [](const Arguments& a) { mean(a[0]); }},
      {"var", 1, [](const Arguments& a) { var(a[0], {}); }},
      {"amax", 1, [](const Arguments& a) { amax(a[0]); }},
      {"amin", 1, [](const Arguments& a) { amin(a[0]); }},
      {"max", 1, [](const Arguments& a) { max(a[0], 0); }},
      {"argmax", 1, [](const Arguments& a) { argmax(a[0], 0); }},
      {"logsumexp", 1, [](const Arguments& a) { logsumexp(a[0], 0); }},
      {"norm", 1, [](const Arguments& a) { norm(a[0]); }},
      {"matmul", 2, [](const Arguments& a) { matmul(a[0], a[1]); }},
      {"linear", 2, [](const Arguments& a) { linear(a[0], a[1]); }},
      {"cast", 1, [](const Arguments& a) { cast(a[0], DType::f64); }},
      {"backward", 1, [](const Arguments& a) { backward(a[0]); }},
      {"gradients", 2, [](const Arguments& a) { gradients(a[0], {a[1]}); }},
      {"requires_grad_", 1, [](Arguments a) { a[0].requires_grad_(); }},
      {"grad", 1, [](const Arguments& a) { a[0].grad(); }},
      {"set_grad", 1, [](const Arguments& a) { a[0].set_grad({}); }},
      {"is_leaf", 1, [](const Arguments& a) { a[0].is_leaf(); }},
      {"register_grad_hook", 1,
       [](const Arguments& a) { register_grad_hook(a[0], [](const Tensor& g) { return g; }); }},
      {"on_grad_ready", 1, [](const Arguments& a) { on_grad_ready(a[0], [](const Tensor&) {}); }},
      {"remove_grad_ready_hook", 1, [](const Arguments& a) { remove_grad_ready_hook(a[0], 0); }},
      {"set_grad_buffer", 1, [](const Arguments& a) { set_grad_buffer(a[0], zeros({})); }},
      {"keep_grad_in_f32", 1, [](const Arguments& a) { keep_grad_in_f32(a[0]); }},
      {"grad_dtype", 1, [](const Arguments& a) { grad_dtype(a[0]); }},
      {"clear_grad", 1, [](const Arguments& a) { clear_grad(a[0]); }},
      {"cast_copy", 1, [](const Arguments& a) { cast_copy(a[0], DType::bf16); }},
      {"mark_cast_copy_current", 1,
       [](const Arguments& a) { mark_cast_copy_current(a[0], DType::bf16); }},
      {"room_in_place_of", 1, [](const Arguments& a) { room_in_place_of({}, a[0]); }}};
  return all;
}

void check_undefined() {
  for (const Function& function : all_functions())
    for (size_t i = 0; i < function.arguments; ++i) {
      Arguments arguments(function.arguments, ones({1}));
      arguments[i] = Tensor();
      CHECK_THROWS_AS_MESSAGE(function.call(arguments), Error, std::string(function.name), i);
    }
}

// Returns a random shape that may have zeros.
Shape drawn_shape(std::mt19937& random, int dims) {
  Shape shape;
  for (int i = 0; i < dims; ++i) shape.push_back(static_cast<int64_t>(random() % 3));
  return shape;
}

Tensor leaf_of_ones(const Shape& shape) { return ones(shape).requires_grad_(); }

// Checks that the result has the expected shape, and the gradients the arguments' shapes.
void check_empty(const char* name, const Tensor& y, const Shape& shape, const Arguments& leaves) {
  CAPTURE(name);
  CHECK(y.shape() == shape);
  CHECK(y.to_vector<float>().size() == static_cast<size_t>(shape.numel()));
  sum(y).backward();
  for (const Tensor& one : leaves) {
    REQUIRE(one.grad().defined());
    CHECK(one.grad().shape() == one.shape());
  }
}

}  // namespace

TEST_CASE("an undefined argument is an error in every function, under a policy too") {
  check_undefined();
  OpPolicy policy;
  policy.lower = DType::bf16;
  policy.device = DeviceType::cpu;
  for (int i = 0; i < op_count; ++i) policy.classes[i] = OpClass::lower_precision;
  const PolicyScope scope(&policy);
  check_undefined();
}

TEST_CASE("tensors without elements follow the same rules of shapes, and so do their gradients") {
  std::mt19937 random(7);
  for (int drawn = 0; drawn < 300; ++drawn) {
    const Shape shape = drawn_shape(random, 1 + static_cast<int>(random() % 3));
    const int last = shape.ndim() - 1;
    const auto of = [&] { return Arguments{leaf_of_ones(shape), leaf_of_ones(shape)}; };
    Arguments x = of();
#define UNARY(name, ...) check_empty(#name, name(x[0]), shape, {x[0]});
#define BINARY(name, ...) check_empty(#name, name(x[0], x[1]), shape, x);
#define COMPARE(name, ...) CHECK(name(x[0], x[1]).shape() == shape);
#include "kernels/elementwise.def"
    const Tensor row = leaf_of_ones({shape.back()});
    check_empty("broadcast", x[0] + row, shape, {x[0], row});
    Shape kept = shape, squeezed = shape, doubled = shape, stacked = shape;
    kept[last] = 1;
    squeezed.erase(last);
    doubled[0] *= 2;
    stacked.insert(0, 2);
    x = of();
    check_empty("sum", sum(x[0], {last}), squeezed, {x[0]});
    check_empty("mean", mean(x[0], {last}, true), kept, {x[0]});
    check_empty("cat", cat(x), doubled, x);
    check_empty("stack", stack(x), stacked, x);
    Shape turned = shape;
    std::swap(turned[0], turned[last]);
    check_empty("transpose", transpose(x[0], 0, last), turned, {x[0]});
    check_empty("flatten", flatten(x[0]), {shape.numel()}, {x[0]});
    check_empty("norm", norm(x[0]), {}, {x[0]});
    const Tensor weight = leaf_of_ones({4, shape.back()}), bias = leaf_of_ones({4});
    Shape wide = shape;
    wide[last] = 4;
    check_empty("linear", linear(x[0], weight, bias), wide, {x[0], weight, bias});
    if (shape.back() > 0) {
      check_empty("amax", amax(x[0], {last}), squeezed, {x[0]});
      check_empty("logsumexp", logsumexp(x[0], last), squeezed, {x[0]});
      CHECK(argmax(x[0], last).shape() == squeezed);
    } else {
      CHECK_THROWS_AS(amax(x[0], {last}), Error);
      CHECK_THROWS_AS(argmax(x[0], last), Error);
    }
  }
}

TEST_CASE("a product over no inner elements is zeros") {
  for (const int64_t rows : {0, 2})
    for (const int64_t columns : {0, 3}) {
      const Tensor a = leaf_of_ones({rows, 0}), b = leaf_of_ones({0, columns});
      const Tensor y = matmul(a, b);
      check_empty("matmul", y, {rows, columns}, {a, b});
      for (const float value : y.to_vector<float>()) CHECK(value == 0);
    }
}
