#include "core/autograd/functions.h"
#include "core/optim/algorithms/rules.h"
#include "core/optim/algorithms/whole_rule.h"
#include "kernels/catalogue.h"
#include "platform/error.h"

#include <algorithm>
#include <cmath>

namespace booster {
namespace {

// The legal values of adjust_lr_fn; an optimizer's option is the place of one of them.
const std::vector<std::string> adjustments = {"original", "match_rms_adamw", "spectral_unclamped"};

double adjustment_number(const std::string& name) {
  const auto found = std::ranges::find(adjustments, name);
  check(found != adjustments.end(), "muon: no such adjust_lr_fn; got {}{}", name,
        legal_names(name, adjustments));
  return static_cast<double>(found - adjustments.begin());
}

// Returns the factor of the rate for a matrix of this shape.
double adjusted(double adjustment, const Shape& shape) {
  const auto rows = static_cast<double>(shape[0]), columns = static_cast<double>(shape[1]);
  if (adjustment == 0) return std::sqrt(std::max(1.0, rows / columns));
  if (adjustment == 1) return 0.2 * std::sqrt(std::max(rows, columns));
  return std::sqrt(rows / columns);
}

// Returns a matrix with the singular vectors of x and singular values near 1, by Newton-Schulz
// iterations of degree 5 (Jordan et al., 2024). The products are in bf16, as in PyTorch, or in f64
// for an f64 matrix.
Tensor orthogonalized(const Tensor& x, const OptimizerOptions& o) {
  const DType wide = x.dtype(), narrow = wide == DType::f64 ? wide : DType::bf16;
  // a x + b y, rounded once
  const auto blend = [&](const Tensor& x, double a, const Tensor& y, double b) {
    return cast(cast(x, wide) * a + cast(y, wide) * b, narrow);
  };
  const bool tall = x.size(0) > x.size(1);
  Tensor y = cast(tall ? transpose(x, 0, 1) : x, narrow);
  y = y / maximum(norm(y), o.at("eps"));
  for (int i = 0; i < static_cast<int>(o.at("ns_steps")); ++i) {
    const Tensor gram = matmul(y, transpose(y, 0, 1));
    const Tensor polynomial = blend(gram, o.at("ns_b"), matmul(gram, gram), o.at("ns_c"));
    y = blend(y, o.at("ns_a"), matmul(polynomial, y), 1);
  }
  return cast(tall ? transpose(y, 0, 1) : y, wide);
}

bool is_adamw(const OptimizerOptions& o) { return o.at("adamw") != 0; }

class MuonRule : public WholeRule {
 public:
  const char* name() const override { return "muon"; }
  std::vector<OptionRange> options() const override {
    constexpr double least = -std::numeric_limits<double>::max();
    return {{"lr"},
            {"weight_decay"},
            {"momentum", 0, 1},
            {"nesterov", 0, 1},
            {"ns_a", least},
            {"ns_b", least},
            {"ns_c", least},
            {"eps"},
            {"ns_steps", 0, 99},
            {"adjust_lr_fn", 0, 2},
            {"adamw", 0, 1},
            {"beta1", 0, 1, true},
            {"beta2", 0, 1, true},
            {"adamw_eps"}};
  }
  void check_parameter(const NamedTensor& parameter, const OptimizerOptions& o) const override {
    check(is_adamw(o) || parameter.tensor.ndim() == 2,
          "muon: parameter {} is no matrix; got shape {}, want it in a group with adamw = 1, or in "
          "another optimizer",
          parameter.name, parameter.tensor.shape());
  }
  std::vector<std::string> state_names(const OptimizerOptions& o) const override {
    if (is_adamw(o)) return {"exp_avg", "exp_avg_sq"};
    return {"momentum_buffer"};
  }
  kernels::StepNumbers numbers(const OptimizerOptions& o) const override {
    if (!is_adamw(o)) return WholeRule::numbers(o);
    return {.adam = {o.at("lr"), o.at("beta1"), o.at("beta2"), o.at("adamw_eps"),
                     o.at("weight_decay"), true, false}};
  }
  void step(const GroupStep& group) const override {
    if (!is_adamw(group.options)) return WholeRule::step(group);
    kernels::on(group.device).adam_step(group.slots, &group.numbers->adam, group.control);
  }

 protected:
  Update update(const Tensor& value, const Tensor& grad,
                const std::array<Tensor, max_states>& state, const Tensor&,
                const OptimizerOptions& o) const override {
    if (value.numel() == 0) return {grad};
    const double kept = o.at("momentum");
    const Tensor momentum = lerp(state[0], grad, 1 - kept);
    const Tensor direction = o.at("nesterov") != 0 ? lerp(grad, momentum, kept) : momentum;
    return {orthogonalized(direction, o) * adjusted(o.at("adjust_lr_fn"), value.shape()),
            {momentum}};
  }
};

}  // namespace

std::unique_ptr<UpdateRule> muon_rule() { return std::make_unique<MuonRule>(); }

OptimizerOptions options_of(const MuonOptions& o) {
  return {{"lr", o.lr},
          {"weight_decay", o.weight_decay},
          {"momentum", o.momentum},
          {"nesterov", o.nesterov},
          {"ns_a", o.ns_coefficients[0]},
          {"ns_b", o.ns_coefficients[1]},
          {"ns_c", o.ns_coefficients[2]},
          {"eps", o.eps},
          {"ns_steps", static_cast<double>(o.ns_steps)},
          {"adjust_lr_fn", adjustment_number(o.adjust_lr_fn)},
          {"adamw", 0},
          {"beta1", o.betas.first},
          {"beta2", o.betas.second},
          {"adamw_eps", o.adamw_eps}};
}

Muon::Muon(ParameterGroups groups, const MuonOptions& options)
    : Optimizer(muon_rule(), std::move(groups), options_of(options)) {}

}  // namespace booster
