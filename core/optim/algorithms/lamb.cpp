#include "core/optim/algorithms/rules.h"
#include "kernels/arguments/multi_tensor.h"

#include "kernels/catalogue.h"

namespace booster {
namespace {

class LambRule : public UpdateRule {
 public:
  const char* name() const override { return "lamb"; }
  std::vector<OptionRange> options() const override {
    return {{"lr"},
            {"beta1", 0, 1, true},
            {"beta2", 0, 1, true},
            {"eps"},
            {"weight_decay"},
            {"max_grad_norm"},
            {"bias_correction", 0, 1},
            {"grad_averaging", 0, 1},
            {"trust_clip", 0, 1},
            {"always_adapt", 0, 1},
            {"decoupled_decay", 0, 1}};
  }
  std::vector<std::string> state_names(const OptimizerOptions&) const override {
    return {"exp_avg", "exp_avg_sq"};
  }
  bool counts_by_group() const override { return true; }
  double max_grad_norm(const OptimizerOptions& o) const override { return o.at("max_grad_norm"); }
  kernels::StepNumbers numbers(const OptimizerOptions& o) const override {
    return {.lamb = {.lr = o.at("lr"),
                     .beta1 = o.at("beta1"),
                     .beta2 = o.at("beta2"),
                     .eps = o.at("eps"),
                     .weight_decay = o.at("weight_decay"),
                     .grad_averaging = o.at("grad_averaging") != 0,
                     .always_adapt = o.at("always_adapt") != 0,
                     .trust_clip = o.at("trust_clip") != 0,
                     .bias_correction = o.at("bias_correction") != 0,
                     .decoupled = o.at("decoupled_decay") != 0,
                     .max_grad_norm = o.at("max_grad_norm")}};
  }
  bool sums_squares() const override { return true; }
  void prepare_step(const GroupStep& group) const override {
    kernels::on(group.device)
        .lamb_moments(group.slots, &group.numbers->lamb, group.grad_norm, group.squares,
                      group.control);
  }
  void step(const GroupStep& group) const override {
    kernels::on(group.device)
        .lamb_apply(group.slots, &group.numbers->lamb, group.grad_norm, group.squares,
                    group.control);
  }
};

}  // namespace

std::unique_ptr<UpdateRule> lamb_rule() { return std::make_unique<LambRule>(); }

OptimizerOptions options_of(const LAMBOptions& o) {
  return {{"lr", o.lr},
          {"beta1", o.betas.first},
          {"beta2", o.betas.second},
          {"eps", o.eps},
          {"weight_decay", o.weight_decay},
          {"max_grad_norm", o.max_grad_norm},
          {"bias_correction", o.bias_correction},
          {"grad_averaging", o.grad_averaging},
          {"trust_clip", o.trust_clip},
          {"always_adapt", o.always_adapt},
          {"decoupled_decay", o.decoupled_decay}};
}

LAMB::LAMB(ParameterGroups groups, const LAMBOptions& options)
    : Optimizer(lamb_rule(), std::move(groups), options_of(options)) {}

}  // namespace booster
