#include "core/autograd/functions.h"
#include "core/optim/algorithms/rules.h"
#include "core/optim/algorithms/whole_rule.h"

#include <cmath>

namespace booster {
namespace {

// Returns the root of the mean square.
Tensor root_mean_square(const Tensor& x) {
  return norm(x) / std::sqrt(static_cast<double>(x.numel()));
}

Tensor mean_square(const Tensor& x, int64_t dim) { return mean(square(x), {dim}, true); }

class AdafactorRule : public WholeRule {
 public:
  const char* name() const override { return "adafactor"; }
  std::vector<OptionRange> options() const override {
    return {{"lr"},
            {"beta2_decay", -std::numeric_limits<double>::max(), 0},
            {"eps1"},
            {"eps2"},
            {"d", 1},
            {"weight_decay"},
            {"maximize", 0, 1}};
  }
  std::vector<std::string> state_names(const OptimizerOptions&) const override {
    return {"row_var", "col_var", "variance"};
  }
  std::vector<RuleState> states(const OptimizerOptions&, const Shape& parameter) const override {
    if (parameter.ndim() < 2) return {{"variance", parameter}};
    Shape rows = parameter, columns = parameter;
    rows[parameter.ndim() - 1] = 1;
    columns[parameter.ndim() - 2] = 1;
    return {{"row_var", rows}, {"col_var", columns}};
  }

 protected:
  Update update(const Tensor& value, const Tensor& grad,
                const std::array<Tensor, max_states>& state, const Tensor& t,
                const OptimizerOptions& o) const override {
    if (value.numel() == 0) return {grad};
    const DType dtype = value.dtype();
    const double spacing = dtype == DType::f64 ? 0x1p-52 : 0x1p-23;
    const double eps1 = o.at("eps1") > 0 ? o.at("eps1") : spacing;
    const Tensor share = cast(pow(t, o.at("beta2_decay")), dtype);  // 1 - beta2
    Update next;
    Tensor variance;
    if (value.ndim() < 2) {
      variance = next.state[0] = lerp(state[0], square(grad), share);
    } else {
      const Tensor rows = next.state[0] = lerp(state[0], mean_square(grad, -1), share);
      const Tensor columns = next.state[1] = lerp(state[1], mean_square(grad, -2), share);
      variance = rows * columns / maximum(mean(rows, {-2}, true), eps1);
    }
    const Tensor u = grad * rsqrt(maximum(variance, eps1 * eps1));
    // rho / lr, so that the step's lr makes it rho.
    const double lr = o.at("lr");
    const Tensor rho = minimum(pow(t, -0.5) / (lr > 0 ? lr : 1), 1);
    const Tensor alpha = maximum(root_mean_square(value), o.at("eps2")) * cast(rho, dtype);
    next.u = u * (alpha / maximum(root_mean_square(u) / o.at("d"), 1));
    return next;
  }
};

}  // namespace

std::unique_ptr<UpdateRule> adafactor_rule() { return std::make_unique<AdafactorRule>(); }

OptimizerOptions options_of(const AdafactorOptions& o) {
  return {{"lr", o.lr},
          {"beta2_decay", o.beta2_decay},
          {"eps1", o.eps.first},
          {"eps2", o.eps.second},
          {"d", o.d},
          {"weight_decay", o.weight_decay},
          {"maximize", o.maximize}};
}

Adafactor::Adafactor(ParameterGroups groups, const AdafactorOptions& options)
    : Optimizer(adafactor_rule(), std::move(groups), options_of(options)) {}

}  // namespace booster
