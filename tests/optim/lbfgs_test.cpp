// LBFGS against PyTorch's values, and its guarantees: saved state, closures that throw, masters.
#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/tape.h"
#include "core/optim/algorithms/registry.h"
#include "core/optim/optimizers.h"
#include "tests/draws.h"
#include "tests/optim/golden.h"

#include <random>

using namespace booster;
using namespace booster::test;

namespace {

// Rosenbrock's function of (a, b) with factor 10, as in make_whole_optim.py.
Tensor rosenbrock(const Tensor& a, const Tensor& b) {
  const Tensor x = cat({a, b});
  const int64_t n = x.numel() - 1;
  const Tensor left = narrow(x, 0, 0, n), right = narrow(x, 0, 1, n);
  return sum(square(right - square(left)) * 10.0 + square(1.0 - left));
}

struct Problem {
  Tensor a = from_vector<double>({-1.2, 1}, {2}).requires_grad_();
  Tensor b = from_vector<double>({0.5}, {1}).requires_grad_();
  double sign = 1;
  int64_t calls = 0;
  int64_t throws_at = -1;

  Parameters parameters() const { return {{"a", a}, {"b", b}}; }
  Tensor step(Optimizer& optimizer) {
    return optimizer.step([&] {
      if (calls++ == throws_at) fail("closure: it throws");
      optimizer.zero_grad();
      const Tensor loss = rosenbrock(a, b) * sign;
      loss.backward();
      return loss;
    });
  }
  Numbers values() const {
    Numbers all = a.to_vector<double>();
    all.push_back(b.item());
    return all;
  }
};

}  // namespace

TEST_CASE("LBFGS agrees with PyTorch's values, losses and calls") {
  const Json file = golden("whole");
  CHECK(file["minimizations"].size() >= 8);
  for (const Json& one : file["minimizations"]) {
    CAPTURE(one["case"].get<std::string>());
    Problem problem;
    problem.sign = one["sign"];
    auto optimizer = make_optimizer("lbfgs", problem.parameters(), options_in(one["options"]));
    for (size_t step = 0; step < one["values"].size(); ++step) {
      CAPTURE(step);
      problem.calls = 0;
      const double loss = problem.step(optimizer).item();
      check_close({loss}, {one["losses"][step].get<double>()}, 1e-7, 1e-9);
      CHECK(problem.calls == one["calls"][step].get<int64_t>());
      check_close(problem.values(), one["values"][step], 1e-7, 1e-8);
    }
  }
}

TEST_CASE("LBFGS finds the minimum of drawn quadratics") {
  for (const unsigned seed : testing::draws(40)) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    std::normal_distribution<double> normal;
    const int64_t n = 2 + seed % 5;
    std::vector<double> numbers(static_cast<size_t>(n * n));
    for (double& number : numbers) number = normal(random);
    const Tensor root = from_vector(numbers, {n, n});
    const Tensor target = narrow(root, 0, 0, 1) + 2.0;
    Tensor x = zeros({1, n}, {DType::f64}).requires_grad_();
    auto optimizer = LBFGS({x}, {.max_iter = 100, .line_search_fn = "strong_wolfe"});
    const auto loss_at = [&] {
      const Tensor away = x - target;
      return sum(square(matmul(away, root))) + sum(square(away));
    };
    optimizer.step([&] {
      optimizer.zero_grad();
      const Tensor loss = loss_at();
      loss.backward();
      return loss;
    });
    CHECK(loss_at().item() < 1e-8);
  }
}

TEST_CASE("a resumed LBFGS goes on with the same bits") {
  Problem one, other;
  auto optimizer = LBFGS(one.parameters(), {.max_iter = 3, .line_search_fn = "strong_wolfe"});
  auto resumed = LBFGS(other.parameters(), {.lr = 0.5, .max_iter = 3});
  for (int step = 0; step < 3; ++step) {
    for (const auto& [from, to] : {std::pair{one.a, other.a}, {one.b, other.b}})
      Tensor(to.detach()).copy_(from.detach());
    resumed.load_state_dict(optimizer.state_dict());
    one.step(optimizer);
    other.step(resumed);
    CHECK(one.values() == other.values());
  }
  CHECK(optimizer.state_dict().tensors.at("a.old_dirs").size(1) == 2);
}

TEST_CASE("a closure that throws leaves the parameters and the state of LBFGS as they were") {
  for (const char* search : {"", "strong_wolfe"})
    for (const int64_t call : {0, 1, 2}) {
      CAPTURE(search);
      CAPTURE(call);
      Problem problem, plain;
      const LBFGSOptions options = {.lr = 0.02, .max_iter = 3, .line_search_fn = search};
      auto optimizer = LBFGS(problem.parameters(), options);
      auto undisturbed = LBFGS(plain.parameters(), options);
      problem.step(optimizer);
      plain.step(undisturbed);
      problem.calls = 0;
      problem.throws_at = call;
      CHECK_THROWS_WITH_AS(problem.step(optimizer), "closure: it throws", Error);
      CHECK(problem.values() == plain.values());
      problem.throws_at = -1;
      problem.step(optimizer);
      plain.step(undisturbed);
      CHECK(problem.values() == plain.values());
    }
}

TEST_CASE("LBFGS moves masters and writes their 16-bit parameters") {
  Tensor x = untracked::cast(from_vector<float>({3, -2}, {2}), DType::bf16).requires_grad_();
  auto optimizer = LBFGS(Parameters{{"x", x}}, {.line_search_fn = "strong_wolfe"});
  optimizer.make_masters();
  optimizer.step([&] {
    optimizer.zero_grad();
    const Tensor loss = sum(square(cast(x, DType::f32) - 0.3));
    loss.backward();
    return loss;
  });
  const Numbers master = optimizer.master("x").to_vector<double>();
  check_close(master, {0.3, 0.3}, 0.01, 0);
  CHECK(x.to_vector<float>() ==
        untracked::cast(optimizer.master("x"), DType::bf16).to_vector<float>());
}

TEST_CASE("LBFGS says what does not fit") {
  Problem problem;
  auto optimizer = LBFGS(problem.parameters());
  CHECK_THROWS_WITH_AS(optimizer.step(),
                       doctest::Contains("got step() without a closure, want step(closure)"),
                       Error);
  CHECK_THROWS_WITH_AS(optimizer.add_group({{{"c", zeros({1}).requires_grad_()}}}),
                       doctest::Contains("it has one group of parameters"), Error);
  CHECK_THROWS_AS(LBFGS(problem.parameters(), {.max_iter = 0}), Error);
  CHECK_THROWS_WITH_AS(LBFGS(problem.parameters(), {.line_search_fn = "wolfe"}),
                       "lbfgs: no such line_search_fn; got wolfe, want strong_wolfe or none",
                       Error);
}
