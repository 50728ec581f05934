// A hundred steps of the rules that change each element by itself, against torch.optim in f64, and
// their state in a resumed optimizer.
#include "core/autograd/functions.h"
#include "core/optim/algorithms/registry.h"
#include "core/optim/optimizers.h"
#include "tests/optim/golden.h"

using namespace booster;
using namespace booster::test;

namespace {

// Takes steps [first, last) with the gradients of make_optim.py.
void run_steps(Optimizer& optimizer, const Tensor& p, int first, int last) {
  for (int step = first; step < last; ++step) {
    const Tensor x = p.detach();
    const Tensor g = sin(x * 3 + step / 7.0) + x / 10;
    g.data<double>()[0] = 0;
    p.set_grad(g);
    optimizer.step();
  }
}

Tensor start_of(const Json& file) {
  const auto values = file["start"].get<Numbers>();
  return from_vector(values, {static_cast<int64_t>(values.size())}).requires_grad_();
}

}  // namespace

TEST_CASE("a hundred steps are torch.optim's, and so is the state") {
  const Json file = golden("long_runs");
  CHECK(file["cases"].size() >= 14);
  for (const Json& one : file["cases"]) {
    CAPTURE(one["rule"].get<std::string>());
    CAPTURE(one["options"].dump());
    const Tensor p = start_of(file);
    Optimizer optimizer =
        make_optimizer(one["rule"], Parameters{{"p", p}}, options_in(one["options"]));
    run_steps(optimizer, p, 0, 100);
    // torch keeps eta and mu of ASGD and the product of NAdam's momenta in f32.
    const bool is_rounded = one["rule"] == "asgd" || one["rule"] == "nadam";
    const double relative = is_rounded ? 2e-8 : 1e-9, absolute = is_rounded ? 1e-8 : 1e-11;
    check_close(p.to_vector<double>(), one["values"].get<Numbers>(), relative, absolute);
    const OptimizerState state = optimizer.state_dict();
    for (const auto& [name, values] : one["states"].items())
      check_close(state.tensors.at("p." + name).to_vector<double>(), values.get<Numbers>(),
                  relative, absolute);
  }
}

TEST_CASE("each of these rules resumes with the same bits") {
  const Json file = golden("long_runs");
  for (const Json& one : file["cases"]) {
    CAPTURE(one["rule"].get<std::string>());
    const auto make = [&](const Tensor& p) {
      return make_optimizer(one["rule"], Parameters{{"p", p}}, options_in(one["options"]));
    };
    const Tensor whole = start_of(file), half = start_of(file);
    Optimizer first = make(whole), second = make(half);
    run_steps(first, whole, 0, 40);
    run_steps(second, half, 0, 25);
    Tensor resumed = half.detach().clone().requires_grad_();
    Optimizer third = make(resumed);
    third.load_state_dict(second.state_dict());
    run_steps(third, resumed, 25, 40);
    CHECK(resumed.to_vector<double>() == whole.to_vector<double>());
  }
}

TEST_CASE("optimizers take torch's options and refuse others") {
  const Tensor p = ones({2}).requires_grad_();
  const NAdam optimizer({p}, {.lr = 0.1, .betas = {0.8, 0.9}});
  CHECK(optimizer.options().at("beta1") == 0.8);
  CHECK(optimizer.lr() == 0.1);
  CHECK_THROWS_WITH_AS(make_optimizer("adagrad", {p}, {{"lr_deca", 0.1}}),
                       doctest::Contains("lr_decay"), Error);
  CHECK_THROWS_AS(Adadelta({p}, {.rho = 1.5}), Error);
  CHECK_THROWS_AS(Rprop({p}, {.etas = {1.5, 2}}), Error);
}
