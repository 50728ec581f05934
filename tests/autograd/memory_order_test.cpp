// Functions of tensors in drawn memory orders: permuted, with gaps, with steps, broadcast. Values
// are compared with a plain model, and values and gradients with those of row-major copies.
#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/tensor/random/random.h"
#include "tests/draws.h"
#include "tests/error_of.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>

using namespace booster;

namespace {

using OrderedNumbers = std::vector<double>;

double number_at(const Tensor& x, int64_t offset) {
  const auto at = [&](auto type) {
    return static_cast<const decltype(type)*>(x.data())[offset];
  };
  switch (x.dtype()) {
    case DType::f32: return at(float{});
    case DType::f64: return at(double{});
    case DType::i64: return static_cast<double>(at(int64_t{}));
    case DType::boolean: return at(uint8_t{});
    case DType::bf16: {
      const uint32_t bits = static_cast<uint32_t>(at(uint16_t{})) << 16;
      float value;
      std::memcpy(&value, &bits, sizeof value);
      return value;
    }
    default: FAIL("another dtype"); return 0;
  }
}

// Calls body(position) for all positions of a shape, in row-major order.
template <class Body>
void for_each_position(const Shape& shape, Body&& body) {
  std::vector<int64_t> at(static_cast<size_t>(shape.ndim()), 0);
  for (int64_t i = 0; i < shape.numel(); ++i) {
    body(at);
    for (int d = shape.ndim() - 1; d >= 0 && ++at[static_cast<size_t>(d)] == shape[d]; --d)
      at[static_cast<size_t>(d)] = 0;
  }
}

// Returns x's numbers in row-major order, read by strides alone.
OrderedNumbers plain(const Tensor& x) {
  OrderedNumbers all;
  for_each_position(x.shape(), [&](const std::vector<int64_t>& at) {
    int64_t offset = 0;
    for (int d = 0; d < x.ndim(); ++d) offset += at[static_cast<size_t>(d)] * x.strides()[d];
    all.push_back(number_at(x, offset));
  });
  return all;
}

Tensor row_major(const OrderedNumbers& values, const Shape& shape, DType dtype) {
  return cast(from_vector(values, shape), dtype);
}

class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  int64_t below(int64_t n) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(n)); }
  Shape shape() {
    const int64_t sizes[] = {1, 2, 3, 5, 16, 17, 33, 65, 300};
    Shape shape;
    const int64_t n = 1 + below(4);
    for (int64_t d = 0, all = 1; d < n; ++d) {
      shape.push_back(sizes[below(all > 3000 ? 2 : (all > 100 ? 5 : 9))]);
      all *= shape[static_cast<int>(d)];
    }
    return shape;
  }
  // Returns a tensor whose dimensions lie in a drawn order, some of them with gaps, with steps or
  // broadcast. Its numbers are exact in every dtype.
  Tensor tensor(const Shape& shape, DType dtype, int64_t least, int64_t most) {
    std::vector<int> order(static_cast<size_t>(shape.ndim()));
    std::iota(order.begin(), order.end(), 0);
    if (below(4)) std::shuffle(order.begin(), order.end(), random_);
    Shape memory;
    std::vector<int64_t> step, gap;
    for (const int d : order) {
      step.push_back(below(8) ? 1 : 2);
      gap.push_back(below(4) ? 0 : 3);
      memory.push_back(below(10) ? shape[d] * step.back() + gap.back() : 1);
    }
    OrderedNumbers values(static_cast<size_t>(memory.numel()));
    for (double& value : values) value = static_cast<double>(least + below(most - least));
    Tensor x = cast(from_vector(values, memory), DType::f64);
    if (is_floating(dtype)) x = x * 0.015625;
    x = row_major(plain(x), memory, dtype);
    std::vector<int> places(order.size());
    for (int i = 0; i < shape.ndim(); ++i) {
      const auto at = static_cast<size_t>(i);
      places[static_cast<size_t>(order[at])] = i;
      if (memory[i] > 1 && memory[i] != shape[order[at]])
        x = slice(x, i, gap[at] / 2, gap[at] / 2 + shape[order[at]] * step[at], step[at]);
    }
    return expand(permute(x, places), shape);
  }

 private:
  std::mt19937 random_;
};

// Arguments of a function: x and y of one shape, positive ones, a mask, positions along `dim`.
struct Arguments {
  Tensor x, positive, y, mask, index;
  int64_t dim = 0;

  Arguments row_majors() const {
    const auto copy = [](const Tensor& t) { return row_major(plain(t), t.shape(), t.dtype()); };
    return {copy(x), copy(positive), copy(y), copy(mask), copy(index), dim};
  }
};

Arguments drawn_arguments(Draw& draw, DType dtype) {
  const Shape shape = draw.shape();
  Arguments a;
  a.dim = draw.below(shape.ndim());
  a.x = draw.tensor(shape, dtype, -100, 100);
  a.positive = draw.tensor(shape, dtype, 20, 100);
  a.y = draw.tensor(shape, dtype, 20, 100);
  a.mask = draw.tensor(shape, DType::boolean, 0, 2);
  a.index = draw.tensor(shape, DType::i64, 0, shape[static_cast<int>(a.dim)]);
  return a;
}

struct Function {
  std::string name;
  bool takes_integers;
  bool is_exact;  // the order of additions does not matter
  std::function<Tensor(const Arguments&)> run;
};

using In = const Arguments&;

std::vector<Function> elementwise_functions() {
  std::vector<Function> all;
#define UNARY(name, ...)                                                           \
  all.push_back({#name, false, true, [](In in) {                                   \
                   const std::string text = #name;                                 \
                   const bool needs_positive = text == "log" || text == "sqrt" ||  \
                                               text == "rsqrt" || text == "reciprocal"; \
                   return name(needs_positive ? in.positive : in.x);               \
                 }});
#define BINARY(name, ...)                                                                     \
  all.push_back({#name, true, true, [](In in) { return name(in.positive, in.y); }}); \
  all.push_back({#name " number", true, true, [](In in) { return name(in.positive, 3.0); }});
#define COMPARE(name, ...)                                                          \
  all.push_back({#name, true, true, [](In in) { return name(in.x, in.y); }}); \
  all.push_back({#name " number", true, true, [](In in) { return name(in.x, 1.0); }});
#include "kernels/elementwise.def"
  const auto put = [&](const char* name, bool integers, std::function<Tensor(In)> run) {
    all.push_back({name, integers, true, std::move(run)});
  };
  put("pow 2.5", false, [](In in) { return pow(in.positive, 2.5); });
  put("pow -2", false, [](In in) { return pow(in.positive, -2.0); });
  put("pow 3", false, [](In in) { return pow(in.x, 3.0); });
  put("3 - x", true, [](In in) { return sub(3.0, in.x); });
  put("clamp", true, [](In in) { return clamp(in.x, -1, 1); });
  put("clamp below", false, [](In in) { return clamp(in.x, {}, 0.5); });
  put("where", true, [](In in) { return where(in.mask, in.x, in.y); });
  put("masked_fill", true, [](In in) { return masked_fill(in.x, in.mask, 2); });
  put("where numbers", true, [](In in) {
    const Tensor zero = zeros({}, {.dtype = in.x.dtype()});
    return add(where(in.mask, zero, zero + 1), in.x);
  });
  put("bf16", true, [](In in) { return cast(in.x, DType::bf16); });
  put("f64", true, [](In in) { return cast(in.x, DType::f64); });
  put("i64", true, [](In in) { return cast(in.x, DType::i64); });
  put("bool", true, [](In in) { return cast(in.x, DType::boolean); });
  put("mixed", true, [](In in) { return add(in.x, in.index); });
  put("row", true, [](In in) { return mul(in.x, select(in.y, 0, 0)); });
  put("add_", true, [](In in) { return in.y.clone().add_(in.x, 3); });
  put("copy_", true, [](In in) { return in.y.clone().copy_(in.x); });
  return all;
}

std::vector<Function> shape_functions() {
  std::vector<Function> all;
  const auto put = [&](const char* name, std::function<Tensor(In)> run) {
    all.push_back({name, true, true, std::move(run)});
  };
  put("flip", [](In in) { return flip(in.x, {in.dim}); });
  put("flip twice", [](In in) { return in.x.ndim() > 1 ? flip(in.x, {0, -1}) : in.x; });
  put("contiguous", [](In in) { return contiguous(in.x); });
  put("flatten", [](In in) { return flatten(in.x); });
  put("cat", [](In in) { return cat({in.x, in.y}, in.dim); });
  put("stack", [](In in) { return stack({in.x, in.y}, in.dim); });
  put("split", [](In in) { return split(in.x, 2, in.dim).back(); });
  put("slice", [](In in) { return slice(in.x, in.dim, 0, {}, 2); });
  put("pad", [](In in) { return pad(in.x, {1, 2}); });
  put("tril", [](In in) { return in.x.ndim() > 1 ? tril(in.x, in.dim) : in.x; });
  put("triu", [](In in) { return in.x.ndim() > 1 ? triu(in.x, -in.dim) : in.x; });
  put("gather", [](In in) { return gather(in.x, in.dim, in.index); });
  put("index_select", [](In in) {
    return index_select(in.x, in.dim, flatten(slice(in.index, 0, 0, 1)));
  });
  put("scatter number", [](In in) { return scatter(in.x, in.dim, in.index, 3.0); });
  put("sort", [](In in) { return sort(in.x, in.dim).first; });
  put("topk", [](In in) { return topk(in.x, 1, in.dim).first; });
  put("argsort", [](In in) { return argsort(in.x, in.dim, true); });
  return all;
}

std::vector<Function> reductions() {
  std::vector<Function> all;
  const auto put = [&](const char* name, bool integers, bool exact, std::function<Tensor(In)> run) {
    all.push_back({name, integers, exact, std::move(run)});
  };
  put("sum", true, false, [](In in) { return sum(in.x, {in.dim}); });
  put("sum of all", true, false, [](In in) { return sum(in.x); });
  put("mean", false, false, [](In in) { return mean(in.x, {in.dim}, true); });
  put("amax", true, true, [](In in) { return amax(in.x, {in.dim}); });
  put("amin", true, true, [](In in) { return amin(in.x, {in.dim}); });
  put("max", true, true, [](In in) { return max(in.x, in.dim).first; });
  put("argmax", true, true, [](In in) { return argmax(in.x, in.dim); });
  put("var", false, false, [](In in) { return var(in.x, {in.dim}, false); });
  put("norm", false, false, [](In in) { return norm(in.positive + in.x * 0, {in.dim}); });
  put("norm of all", false, false, [](In in) { return norm(in.x * 1); });
  put("logsumexp", false, false, [](In in) { return logsumexp(in.x, in.dim); });
  put("cumsum", true, false, [](In in) { return cumsum(in.x, in.dim); });
  return all;
}

bool is_close(const OrderedNumbers& a, const OrderedNumbers& b, double tolerance) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i)
    if (!(std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(b[i])) || a[i] == b[i] ||
          (std::isnan(a[i]) && std::isnan(b[i]))))
      return false;
  return true;
}

void check_as_row_major(const Function& function, In in) {
  CAPTURE(function.name);
  const Tensor x = in.x.detach();
  Arguments moved = in, dense = in.row_majors();
  const bool has_gradient = is_floating(x.dtype());
  if (has_gradient)
    for (Arguments* a : {&moved, &dense}) {
      a->x = a->x.detach();
      a->x.requires_grad_();
    }
  const Tensor y = function.run(moved), want = function.run(dense);
  CHECK(y.shape() == want.shape());
  CHECK(y.dtype() == want.dtype());
  const double rounding = x.dtype() == DType::bf16 ? 0.02 : 1e-5;
  CHECK(is_close(plain(y.detach()), plain(want.detach()), function.is_exact ? 0 : rounding));
  if (!has_gradient || !is_floating(y.dtype()) || !y.requires_grad()) return;
  for (const Tensor& one : {y, want}) sum(one * cast(one.detach(), one.dtype())).backward();
  CHECK(moved.x.grad().is_contiguous());
  CHECK(is_close(plain(moved.x.grad()), plain(dense.x.grad()), rounding));
}

void check_functions(const std::vector<Function>& functions, unsigned count) {
  for (const unsigned seed : testing::draws(count)) {
    CAPTURE(seed);
    Draw draw(seed);
    const DType dtypes[] = {DType::f32, DType::bf16, DType::f64, DType::i64};
    const DType dtype = dtypes[draw.below(4)];
    const Arguments in = drawn_arguments(draw, dtype);
    for (const Function& function : functions)
      if (is_floating(dtype) || function.takes_integers) check_as_row_major(function, in);
  }
}

}  // namespace

TEST_CASE("elementwise functions of any memory order equal those of row-major tensors") {
  check_functions(elementwise_functions(), 440);
}

TEST_CASE("shape functions of any memory order equal those of row-major tensors") {
  check_functions(shape_functions(), 440);
}

TEST_CASE("reductions of any memory order equal those of row-major tensors") {
  check_functions(reductions(), 440);
}

TEST_CASE("elementwise functions of any memory order equal plain loops") {
  using Plain = std::function<double(double x, double y, double p, double mask)>;
  struct Row {
    const char* name;
    std::function<Tensor(In)> run;
    Plain plain;
  };
  const Row rows[] = {
      {"neg", [](In in) { return -in.x; }, [](double x, double, double, double) { return -x; }},
      {"exp", [](In in) { return exp(in.x); },
       [](double x, double, double, double) { return std::exp(x); }},
      {"log", [](In in) { return log(in.positive); },
       [](double, double, double p, double) { return std::log(p); }},
      {"sin", [](In in) { return sin(in.x * 100); },
       [](double x, double, double, double) { return std::sin(x * 100); }},
      {"cos", [](In in) { return cos(in.x * 100); },
       [](double x, double, double, double) { return std::cos(x * 100); }},
      {"pow", [](In in) { return pow(in.positive, in.y); },
       [](double, double y, double p, double) { return std::pow(p, y); }},
      {"pow 3", [](In in) { return pow(in.x, 3.0); },
       [](double x, double, double, double) { return x * x * x; }},
      {"add", [](In in) { return in.x + in.y; },
       [](double x, double y, double, double) { return x + y; }},
      {"div", [](In in) { return in.x / in.y; },
       [](double x, double y, double, double) { return x / y; }},
      {"maximum", [](In in) { return maximum(in.x, in.y); },
       [](double x, double y, double, double) { return std::max(x, y); }},
      {"clamp", [](In in) { return clamp(in.x, -0.5, 0.25); },
       [](double x, double, double, double) { return std::clamp(x, -0.5, 0.25); }},
      {"less", [](In in) { return less(in.x, in.y); },
       [](double x, double y, double, double) { return x < y ? 1.0 : 0.0; }},
      {"where", [](In in) { return where(in.mask, in.x, in.y); },
       [](double x, double y, double, double mask) { return mask != 0 ? x : y; }},
      {"add_", [](In in) { return in.y.clone().add_(in.x, -2); },
       [](double x, double y, double, double) { return y - 2 * x; }},
  };
  for (const unsigned seed : testing::draws(440)) {
    CAPTURE(seed);
    Draw draw(seed);
    const Arguments in = drawn_arguments(draw, DType::f32);
    const OrderedNumbers x = plain(in.x), y = plain(in.y), p = plain(in.positive),
                         mask = plain(in.mask);
    for (const Row& row : rows) {
      CAPTURE(row.name);
      OrderedNumbers want(x.size());
      for (size_t i = 0; i < x.size(); ++i) want[i] = row.plain(x[i], y[i], p[i], mask[i]);
      CHECK(is_close(plain(row.run(in)), want, 1e-6));
    }
  }
}

TEST_CASE("elementwise results lie in memory as a permuted operand; data() names what to call") {
  const Tensor x = from_vector(std::vector<float>{1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor y = -x.t();
  CHECK(y.strides() == x.t().strides());
  CHECK(less(x.t(), 3.0).strides() == x.t().strides());
  CHECK(cast(x.t(), DType::f64).strides() == x.t().strides());
  CHECK(error_of([&] { y.data<float>(); }).find("contiguous()") != std::string::npos);
  CHECK(y.contiguous().data<float>()[1] == -4);
  CHECK(y.clone().is_contiguous());
  CHECK((-expand(x, {4, 2, 3})).is_contiguous());
}
