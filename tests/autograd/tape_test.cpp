#include "core/autograd/leaf_gradients.h"
#include "core/autograd/tape.h"

#include "core/autograd/functions.h"
#include "core/tensor/random/random.h"

#include <doctest/doctest.h>

using namespace booster;
using Values = std::vector<float>;

namespace {
Tensor leaf(const Values& values) {
  return from_vector(values, {static_cast<int64_t>(values.size())}).requires_grad_();
}
}  // namespace

TEST_CASE("gradients of a value used twice add up") {
  Tensor x = leaf({2, 3});
  const Tensor y = x * x + x;
  backward(sum(y));
  CHECK(x.grad().to_vector<float>() == Values{5, 7});
}

TEST_CASE("gradients accumulate over backward passes until they are cleared") {
  Tensor x = leaf({1, 2});
  backward(sum(x * 3));
  backward(sum(x * 3));
  CHECK(x.grad().to_vector<float>() == Values{6, 6});
  clear_grad(x);
  CHECK_FALSE(x.grad().defined());
  backward(sum(x));
  CHECK(x.grad().to_vector<float>() == Values{1, 1});
}

TEST_CASE("nothing is recorded without gradients") {
  Tensor x = leaf({1});
  {
    const NoGradGuard no_grad;
    CHECK_FALSE((x * 2).requires_grad());
  }
  CHECK((x * 2).requires_grad());
  CHECK_FALSE((x.detach() * 2).requires_grad());
}

TEST_CASE("a second backward through a freed graph is an error, and retain_graph allows it") {
  Tensor x = leaf({3});
  const Tensor y = sum(x * x);
  backward(y, {.retain_graph = true});
  backward(y);
  CHECK(x.grad().to_vector<float>() == Values{12});
  CHECK_THROWS_WITH_AS(backward(y), doctest::Contains("already freed"), Error);
}

TEST_CASE("a saved tensor that was changed in place is an error") {
  Tensor x = leaf({3});
  Tensor w = from_vector<float>({2}, {1});
  const Tensor y = sum(x * w);
  w.fill_(5);
  CHECK_THROWS_WITH_AS(backward(y), doctest::Contains("changed in place"), Error);
}

TEST_CASE("an in-place change of a tracked tensor is refused while gradients are on") {
  Tensor x = leaf({3});
  CHECK_THROWS_WITH_AS(x.fill_(0), doctest::Contains("NoGradGuard"), Error);
  const NoGradGuard no_grad;
  x.fill_(0);
  CHECK(x.item() == 0);
}

TEST_CASE("backward from more than one element needs a gradient of that shape") {
  Tensor x = leaf({1, 2});
  CHECK_THROWS_WITH_AS(backward(x * 2), doctest::Contains("one element"), Error);
  CHECK_THROWS_WITH_AS(backward(x * 2, {.grad = ones({3})}), doctest::Contains("does not match"),
                       Error);
  backward(x * 2, {.grad = from_vector<float>({1, 10}, {2})});
  CHECK(x.grad().to_vector<float>() == Values{2, 20});
  CHECK_THROWS_WITH_AS(backward(zeros({})), doctest::Contains("not on the tape"), Error);
}

TEST_CASE("several roots give the sum of what each alone gives, in one pass") {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    manual_seed(seed);
    const Tensor w = normal({3}, 0, 1, {.dtype = DType::f64}).requires_grad_();
    int visits = 0;
    const auto roots = [&] {
      const Tensor shared = exp(w);
      register_grad_hook(shared, [&](const Tensor&) { ++visits; return Tensor(); });
      // The second is inside the graph of the first, the third is a leaf, the fourth equals the
      // first.
      const Tensor last = sum(mul(shared, shared));
      return std::vector<Tensor>{last, shared, w, last};
    };
    const std::vector<Tensor> grads = {Tensor(), normal({3}, 0, 1, {.dtype = DType::f64}),
                                       normal({3}, 0, 1, {.dtype = DType::f64}), Tensor()};
    std::vector<double> wanted(3, 0.0);
    for (size_t i = 0; i < grads.size(); ++i) {
      clear_grad(w);
      backward(roots()[i], {.grad = grads[i]});
      const auto one = w.grad().to_vector<double>();
      for (size_t k = 0; k < 3; ++k) wanted[k] += one[k];
    }
    clear_grad(w);
    visits = 0;
    backward(roots(), {.grads = grads});
    CHECK(visits == 1);
    const auto got = w.grad().to_vector<double>();
    for (size_t k = 0; k < 3; ++k) CHECK(got[k] == doctest::Approx(wanted[k]));
  }
  const Tensor w = ones({2}).requires_grad_();
  CHECK_THROWS_WITH_AS(backward(std::vector<Tensor>{}), doctest::Contains("no roots"), Error);
  CHECK_THROWS_WITH_AS(backward(std::vector<Tensor>{sum(w), w * 2.0}),
                       doctest::Contains("one element"), Error);
  CHECK_THROWS_AS(backward(std::vector<Tensor>{sum(w), ones({})}), Error);
}

TEST_CASE("only floating leaves can require gradients") {
  CHECK_THROWS_AS(zeros({1}, {.dtype = DType::i64}).requires_grad_(), Error);
  Tensor x = leaf({1});
  Tensor y = x * 2;
  CHECK_FALSE(y.is_leaf());
  CHECK_THROWS_AS(y.requires_grad_(false), Error);
}

TEST_CASE("a ready hook fires once per pass, after the whole gradient has arrived") {
  Tensor x = leaf({1});
  int fired = 0;
  const int id = on_grad_ready(x, [&](const Tensor& done) {
    ++fired;
    CHECK(done.grad().item() == 7);
  });
  backward(sum(x * 3 + x * 4));
  CHECK(fired == 1);
  remove_grad_ready_hook(x, id);
  clear_grad(x);
  backward(sum(x));
  CHECK(fired == 1);
}

TEST_CASE("ready hooks fire during the pass, deepest layer first") {
  Tensor first = leaf({2}), second = leaf({3});
  std::vector<int> order;
  on_grad_ready(first, [&](const Tensor&) { order.push_back(1); });
  on_grad_ready(second, [&](const Tensor&) { order.push_back(2); });
  Tensor x = from_vector<float>({1}, {1});
  backward(sum((x * first) * second));
  CHECK(order == std::vector<int>{2, 1});
}

TEST_CASE("a gradient hook sees and may replace the gradient") {
  Tensor x = leaf({1});
  Tensor y = x * 2;
  register_grad_hook(y, [](const Tensor& g) { return g * 10; });
  register_grad_hook(x, [](const Tensor& g) { return g + 1; });
  backward(sum(y));
  CHECK(x.grad().item() == 21);
}

TEST_CASE("a gradient buffer receives the first gradient and adds later ones") {
  Tensor x = leaf({1, 2});
  Tensor bucket = full({4}, 9);
  set_grad_buffer(x, untracked::narrow(bucket, 0, 1, 2));
  backward(sum(x * 3));
  CHECK(bucket.to_vector<float>() == Values{9, 3, 3, 9});
  backward(sum(x));
  CHECK(bucket.to_vector<float>() == Values{9, 4, 4, 9});
  CHECK(x.grad().shares_storage(bucket));
}

TEST_CASE("end hooks run once, after the last node") {
  Tensor x = leaf({1});
  int ended = 0;
  on_grad_ready(x, [&](const Tensor&) { on_backward_end([&] { ++ended; }); });
  backward(sum(x * 2));
  CHECK(ended == 1);
  CHECK_THROWS_AS(on_backward_end([] {}), Error);
}

TEST_CASE(
    "a graph of a hundred thousand calls neither overflows the stack in backward nor when "
    "dropped") {
  Tensor x = leaf({1});
  Tensor y = x;
  for (int i = 0; i < 100000; ++i) y = y + 1;
  { Tensor unused = y * 2; }
  backward(sum(y));
  CHECK(x.grad().item() == 1);
  Tensor z = x;
  for (int i = 0; i < 100000; ++i) z = z + 1;
  z = Tensor();
}

TEST_CASE("a custom function takes part in the graph") {
  auto cube = [](const Tensor& x) {
    const Tensor y = [&] {
      const NoGradGuard no_grad;
      return x * x * x;
    }();
    return record(y, "cube", {x}, [x = Saved(x)](const Tensor& g, Gradients& d) {
      d[0] = g * 3 * x.get() * x.get();
    });
  };
  Tensor x = leaf({2});
  backward(sum(cube(x) * 2));
  CHECK(x.grad().item() == 24);
}

TEST_CASE("a checkpoint gives the same gradients, also with dropout-like random numbers inside") {
  Tensor w = leaf({3});
  auto block = [&](const std::vector<Tensor>& in) {
    const Tensor noise = uniform(in[0].shape(), 0, 1);
    return exp(in[0] * w * noise);
  };
  uint64_t stream = 0;
  auto run = [&](bool recompute) {
    manual_seed(4);
    Tensor x = leaf({0.1f, 0.2f, 0.3f});
    clear_grad(w);
    set_random_stream(stream);  // for example in a layer split over ranks
    Tensor y = recompute ? checkpoint(block, {x}) : block({x});
    set_random_stream(0);
    const Tensor more = uniform({3}, 0, 1);
    backward(sum(y * more));
    Values values = x.grad().to_vector<float>();
    values.push_back(static_cast<float>(w.grad().item()));
    return values;
  };
  const Values first = run(true);
  CHECK(first == run(false));
  stream = 3;
  const Values other = run(true);
  CHECK(other == run(false));
  CHECK(other != first);
  CHECK(set_random_stream(0) == 0);
}

TEST_CASE("a checkpoint draws from the stream in which it ran, and leaves the later one as it is") {
  for (const uint64_t stream : {0, 5}) {
    std::vector<Values> draws;
    Tensor x = leaf({1, 2, 3});
    manual_seed(4);
    set_random_stream(stream);
    const Tensor y = checkpoint(
        [&](const std::vector<Tensor>& in) {
          const Tensor noise = uniform({3}, 0, 1);
          draws.push_back(noise.to_vector<float>());
          set_random_stream(9);  // as a split layer does
          return in[0] * noise;
        },
        {x});
    set_random_stream(7);
    backward(sum(y));
    CHECK(set_random_stream(0) == 7);
    REQUIRE(draws.size() == 2);
    CHECK(draws[0] == draws[1]);
    CHECK(x.grad().to_vector<float>() == draws[0]);
  }
}

TEST_CASE("a checkpoint reaches parameters even if no input requires a gradient") {
  Tensor w = leaf({3});
  const Tensor x = from_vector<float>({2}, {1});
  backward(sum(checkpoint([&](const auto& in) { return in[0] * w; }, {x})));
  CHECK(w.grad().item() == 2);
}

namespace {

// Counts how often a leaf is reported complete in one backward pass, and keeps its gradient then.
struct Ready {
  explicit Ready(const Tensor& leaf) {
    on_grad_ready(leaf, [this](const Tensor& done) {
      ++times;
      gradient = done.grad().item();
    });
  }
  int times = 0;
  double gradient = 0;
};

}  // namespace

TEST_CASE("a leaf is ready once and complete, wherever checkpoints use it") {
  const Tensor w = full({}, 3).requires_grad_(), x = full({}, 2).requires_grad_();
  const auto times_w = [&](const std::vector<Tensor>& in) { return in[0] * w; };
  const auto nested = [&](const std::vector<Tensor>& in) { return checkpoint(times_w, in) * w; };
  struct Case {
    const char* name;
    std::function<Tensor()> run;
    double gradient;  // d run / d w at w = 3, x = 2
  };
  const std::vector<Case> cases = {
      {"two checkpoints", [&] { return checkpoint(times_w, {checkpoint(times_w, {x})}); }, 12},
      {"used after it", [&] { return checkpoint(times_w, {x}) * w; }, 12},
      {"used before it", [&] { return checkpoint(times_w, {x * w}); }, 12},
      {"one in another", [&] { return checkpoint(nested, {x}); }, 12},
      {"one in another, and after", [&] { return checkpoint(nested, {x}) * w; }, 54},
      {"without an input", [&] { return checkpoint([&](const auto&) { return w * w; }, {}); }, 6},
      {"given as input too", [&] { return checkpoint(times_w, {w}); }, 6}};
  for (const Case& one : cases) {
    CAPTURE(one.name);
    w.set_grad({});
    const Tensor y = one.run();
    Ready ready(w);
    backward(y);
    CHECK(ready.times == 1);
    CHECK(ready.gradient == one.gradient);
    CHECK(w.grad().item() == one.gradient);
    remove_grad_ready_hook(w, 0);
  }
}

TEST_CASE("what only gradients that nobody wants would read may be changed in place") {
  using F = Tensor (*)(const Tensor&, const Tensor&);
  const std::pair<const char*, F> functions[] = {
      {"matmul", [](const Tensor& a, const Tensor& b) { return matmul(a, b); }},
      {"linear", [](const Tensor& a, const Tensor& b) { return linear(a, b, {}); }},
      {"mul", [](const Tensor& a, const Tensor& b) { return a * b; }},
      {"div", [](const Tensor& a, const Tensor& b) { return b / a; }}};
  for (const auto& [name, function] : functions)
    for (const bool first_wanted : {false, true}) {
      CAPTURE(std::string(name));
      CAPTURE(first_wanted);
      // The gradient of b in b / a reads a; the gradient of a alone does not read b.
      if (function == functions[3].second && first_wanted) continue;
      Tensor a = full({3, 3}, 2), b = full({3, 3}, 5);
      Tensor &wanted = first_wanted ? a : b, &frozen = first_wanted ? b : a;
      wanted.requires_grad_();
      const auto gradient = [&](bool change) {
        const Tensor y = sum(function(a, b));
        if (change) {
          const NoGradGuard no_grad;
          wanted.copy_(full({3, 3}, 7));
        }
        return gradients(y, {wanted})[0].to_vector<float>();
      };
      const Values want = gradient(false);
      CHECK(gradient(true) == want);
      const Tensor y = sum(function(a, b));
      frozen.mul_(2);
      CHECK_THROWS_WITH_AS(backward(y), doctest::Contains("changed in place"), Error);
    }
}
