#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/optim/algorithms/flat_parameters.h"
#include "core/optim/algorithms/line_search.h"
#include "core/optim/algorithms/rules.h"
#include "platform/error.h"

#include <algorithm>
#include <cmath>

namespace booster {
namespace {

using Closure = std::function<Tensor()>;
// Places of the state tensors.
enum State : size_t { last_step, last_gradient, changes_of_gradient, steps };

double dot(const Tensor& a, const Tensor& b) { return sum(a * b).item(); }
double largest(const Tensor& x) { return amax(abs(x)).item(); }

// Adds a row to a history of at most `most` rows.
Tensor with_row(const Tensor& rows, const Tensor& row, int64_t most) {
  const Tensor added = unsqueeze(row, 0);
  if (rows.size(0) == 0) return added;
  return cat({rows.size(0) < most ? rows : narrow(rows, 0, 1, most - 1), added});
}

// One call of step(closure).
class Minimization {
 public:
  Minimization(Optimizer::Body& body, const Closure& closure)
      : body_(body),
        options_(body.groups[0].options),
        parameters_(body.groups[0].parameters, changes_of_gradient),
        closure_(closure),
        most_evaluations_(count("max_eval") > 0 ? count("max_eval") : count("max_iter") * 5 / 4),
        iterations_(parameters_.iterations()) {}
  Tensor run();

 private:
  int64_t count(const char* option) const { return static_cast<int64_t>(options_.at(option)); }
  bool is_flat() const { return largest(gradient_) <= options_.at("tolerance_grad"); }
  Tensor evaluate();
  Tensor minimized();
  Tensor direction();
  bool move(const Tensor& direction, bool is_last);
  void search(const Tensor& direction, double first_t, double slope);

  Optimizer::Body& body_;
  const OptimizerOptions& options_;
  FlatParameters parameters_;
  const Closure& closure_;
  const int64_t most_evaluations_;
  int64_t iterations_, evaluations_ = 0;
  double loss_ = 0;
  Tensor gradient_;
};

// Evaluates the loss and the gradient here.
Tensor Minimization::evaluate() {
  Tensor loss;
  {
    const GradMode on_the_tape(true);
    loss = closure_();
  }
  body_.settle_clip();
  const bool maximize = options_.at("maximize") != 0;
  loss_ = maximize ? -loss.item() : loss.item();
  gradient_ = maximize ? -parameters_.gradient() : parameters_.gradient();
  ++evaluations_;
  return loss;
}

// Returns minus the gradient times the approximate inverse of the Hessian: the two loops of Nocedal
// and Wright, algorithm 7.4. First remembers the last step.
Tensor Minimization::direction() {
  if (iterations_ == 1) {
    const Tensor none = zeros({0, gradient_.numel()}, {gradient_.dtype(), gradient_.device()});
    for (const State rows : {changes_of_gradient, steps}) parameters_.set_state(rows, none);
    return -gradient_;
  }
  const Tensor y = gradient_ - parameters_.state(last_gradient), s = parameters_.state(last_step);
  Tensor ys = parameters_.state(changes_of_gradient), ss = parameters_.state(steps);
  if (dot(y, s) > 1e-10) {
    ys = with_row(ys, y, count("history_size"));
    ss = with_row(ss, s, count("history_size"));
    parameters_.set_state(changes_of_gradient, ys);
    parameters_.set_state(steps, ss);
  }
  const int64_t pairs = ys.size(0);
  Tensor q = -gradient_;
  std::vector<double> rho, alpha(static_cast<size_t>(pairs));
  for (int64_t i = 0; i < pairs; ++i) rho.push_back(1 / dot(select(ys, 0, i), select(ss, 0, i)));
  for (int64_t i = pairs - 1; i >= 0; --i) {
    const auto at = static_cast<size_t>(i);
    alpha[at] = rho[at] * dot(select(ss, 0, i), q);
    q = q - select(ys, 0, i) * alpha[at];
  }
  if (pairs > 0) {
    const Tensor newest = select(ys, 0, pairs - 1);
    q = q * (1 / (rho.back() * dot(newest, newest)));
  }
  for (int64_t i = 0; i < pairs; ++i) {
    const auto at = static_cast<size_t>(i);
    q = q + select(ss, 0, i) * (alpha[at] - rho[at] * dot(select(ys, 0, i), q));
  }
  return q;
}

// Moves to the point that a line search finds.
void Minimization::search(const Tensor& direction, double first_t, double slope) {
  const Tensor start = parameters_.values();
  const auto at = [&](double t) {
    parameters_.set_values(start + direction * t);
    evaluate();
    return LinePoint{t, loss_, gradient_, dot(gradient_, direction)};
  };
  const LinePoint here = {0, loss_, gradient_, slope};
  const auto [found, evaluations] =
      strong_wolfe(at, here, first_t,
                   {.evaluations = most_evaluations_ - evaluations_,
                    .tolerance_change = options_.at("tolerance_change"),
                    .direction_size = largest(direction)});
  parameters_.set_values(start + direction * found.t);
  loss_ = found.loss;
  gradient_ = found.gradient;
  parameters_.set_state(last_step, direction * found.t);
}

// Moves along the direction. Returns true if the minimization ends there.
bool Minimization::move(const Tensor& direction, bool is_last) {
  const double change = options_.at("tolerance_change"), before = loss_;
  const double lr = options_.at("lr");
  const double t = iterations_ == 1 ? std::min(1.0, 1 / sum(abs(gradient_)).item()) * lr : lr;
  const double slope = dot(gradient_, direction);
  parameters_.set_state(last_gradient, gradient_);
  parameters_.set_state(last_step, direction * t);
  if (slope > -change) return true;
  if (options_.at("strong_wolfe") != 0) {
    search(direction, t, slope);
  } else {
    parameters_.set_values(parameters_.values() + direction * t);
    if (is_last) return true;
    evaluate();
  }
  return evaluations_ >= most_evaluations_ || is_flat() ||
         largest(parameters_.state(last_step)) <= change || std::abs(loss_ - before) < change;
}

// Minimizes. If the closure throws, parameters and state are as before.
Tensor Minimization::run() {
  const Tensor start = parameters_.values();
  const auto states = parameters_.states();
  const int64_t iterations = iterations_;
  try {
    return minimized();
  } catch (...) {
    parameters_.set_values(start);
    parameters_.restore(states);
    parameters_.set_iterations(iterations);
    throw;
  }
}

Tensor Minimization::minimized() {
  const Tensor first = evaluate();
  if (is_flat()) return first;
  for (int64_t i = 1; i <= count("max_iter"); ++i) {
    parameters_.set_iterations(++iterations_);
    if (move(direction(), i == count("max_iter"))) break;
  }
  return first;
}

class LbfgsRule : public UpdateRule {
 public:
  const char* name() const override { return "lbfgs"; }
  std::vector<OptionRange> options() const override {
    return {{"lr"},
            {"max_iter", 1},
            {"max_eval"},
            {"tolerance_grad"},
            {"tolerance_change"},
            {"history_size", 1},
            {"strong_wolfe", 0, 1},
            {"maximize", 0, 1}};
  }
  std::vector<std::string> state_names(const OptimizerOptions&) const override {
    return {"step", "prev_grad", "old_dirs", "old_stps"};
  }
  std::vector<RuleState> states(const OptimizerOptions&, const Shape& parameter) const override {
    const Shape rows = {-1, parameter.numel()};
    return {{"step", parameter}, {"prev_grad", parameter}, {"old_dirs", rows}, {"old_stps", rows}};
  }
  bool needs_whole_parameters() const override { return true; }
  bool minimizes() const override { return true; }
  Tensor minimize(Optimizer::Body& body, const Closure& closure) const override {
    const NoGradGuard no_grad;
    const PolicyScope inside(nullptr);
    return Minimization(body, closure).run();
  }
  kernels::StepNumbers numbers(const OptimizerOptions&) const override { return {}; }
  void step(const GroupStep&) const override {}
};

}  // namespace

std::unique_ptr<UpdateRule> lbfgs_rule() { return std::make_unique<LbfgsRule>(); }

OptimizerOptions options_of(const LBFGSOptions& o) {
  check(o.line_search_fn.empty() || o.line_search_fn == "strong_wolfe",
        "lbfgs: no such line_search_fn; got {}, want strong_wolfe or none", o.line_search_fn);
  return {{"lr", o.lr},
          {"max_iter", static_cast<double>(o.max_iter)},
          {"max_eval", static_cast<double>(o.max_eval)},
          {"tolerance_grad", o.tolerance_grad},
          {"tolerance_change", o.tolerance_change},
          {"history_size", static_cast<double>(o.history_size)},
          {"strong_wolfe", o.line_search_fn.empty() ? 0.0 : 1.0},
          {"maximize", o.maximize}};
}

LBFGS::LBFGS(ParameterGroups groups, const LBFGSOptions& options)
    : Optimizer(lbfgs_rule(), std::move(groups), options_of(options)) {}

}  // namespace booster
