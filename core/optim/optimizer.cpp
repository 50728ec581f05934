#include "core/optim/optimizer.h"

#include "core/autograd/gradient_keeper.h"
#include "core/autograd/leaf_gradients.h"
#include "core/autograd/tape.h"
#include "core/optim/clip.h"
#include "core/optim/optimizer_body.h"
#include "core/optim/update_rule.h"
#include "core/tensor/device_number.h"
#include "core/tensor/tensor.h"
#include "kernels/arguments/multi_tensor.h"
#include "kernels/catalogue.h"
#include "platform/error.h"

namespace booster {
namespace {

Parameters numbered(const std::vector<Tensor>& tensors) {
  Parameters parameters;
  for (const Tensor& tensor : tensors)
    parameters.push_back({std::to_string(parameters.size()), tensor});
  return parameters;
}

void check_parameter(const char* rule, const NamedTensor& parameter) {
  const auto& [name, tensor] = parameter;
  check(tensor.defined(), "{}: parameter {} is undefined", rule, name);
  check(is_floating(tensor.dtype()), "{}: parameter {} is not floating; got {}", rule, name,
        name_of(tensor.dtype()));
  check(tensor.is_leaf(), "{}: parameter {} is the result of an operation; want a leaf", rule,
        name);
  check(tensor.is_contiguous(),
        "{}: parameter {} is not contiguous; got shape {} and strides {}, want a copy by "
        "contiguous() as the parameter, as Module::add_parameter makes one",
        rule, name, tensor.shape(), tensor.strides());
}

void check_distinct(const char* rule, const OptimizedParameter& known, const NamedTensor& added) {
  check(!known.tensor.same_body(added.tensor),
        "{}: a parameter occurs twice; got {} and {}, want each in one group", rule, known.name,
        added.name);
  check(known.name != added.name, "{}: two parameters have the name {}; want a name for each", rule,
        added.name);
  check(known.tensor.device() == added.tensor.device(),
        "{}: parameters {} and {} are on different devices; want an optimizer for each", rule,
        known.name, added.name);
}

}  // namespace

ParameterGroups::ParameterGroups(Parameters parameters) : groups_{{std::move(parameters), {}}} {}
ParameterGroups::ParameterGroups(const std::vector<Tensor>& tensors)
    : groups_{{numbered(tensors), {}}} {}

Optimizer::Optimizer(std::unique_ptr<UpdateRule> rule, ParameterGroups groups,
                     OptimizerOptions defaults)
    : body_(std::make_shared<Body>()) {
  check(rule != nullptr, "Optimizer: no update rule; got null");
  check_options(*rule, defaults);
  body_->rule = std::move(rule);
  body_->defaults = std::move(defaults);
  check(!groups.list().empty(), "{}: no parameters; got an empty list", name());
  for (const auto& group : groups.list()) body_->add(group);
}

void Optimizer::Body::add(const ParameterGroup& added) {
  check(!added.parameters.empty(), "{}: no parameters; got an empty list as group {}", rule->name(),
        groups.size());
  check(groups.empty() || !rule->minimizes(),
        "{}: it has one group of parameters; got another, want all in one", rule->name());
  Group group;
  group.options = group.constructed = merged(*rule, defaults, added.options.numbers());
  for (const auto& parameter : added.parameters) {
    check_parameter(rule->name(), parameter);
    rule->check_parameter(parameter, group.options);
    for_each([&](const auto& known) { check_distinct(rule->name(), known, parameter); });
    for (const auto& known : group.parameters) check_distinct(rule->name(), known, parameter);
    group.parameters.push_back(
        {.name = parameter.name, .tensor = parameter.tensor, .kept_on = kept_on});
  }
  groups.push_back(std::move(group));
}

OptimizedParameter& Optimizer::Body::find(const char* what, const std::string& name) {
  for (auto& group : groups)
    for (auto& parameter : group.parameters)
      if (parameter.name == name) return parameter;
  std::vector<std::string> names;
  for_each([&](auto& parameter) { names.push_back(parameter.name); });
  fail("{}: {} has no such parameter; got {}{}", what, rule->name(), name,
       legal_names(name, names));
}

std::vector<Tensor> Optimizer::Body::gradients() const {
  std::vector<Tensor> gradients;
  for (const auto& group : groups)
    for (const auto& p : group.parameters)
      if (p.owned().size() > 0 && p.tensor.grad().defined()) gradients.push_back(p.gradient());
  return gradients;
}

void Optimizer::Body::check_not_kept(const char* call, const char* instead) const {
  for (const auto& group : groups)
    for (const auto& p : group.parameters) booster::check_not_kept(call, p.tensor, instead);
}

const kernels::StepNumbers* Optimizer::Body::numbers_of(Group& group) const {
  if (!group.numbers.defined() || group.numbers.device() != home()) {
    group.numbers = empty({sizeof(kernels::StepNumbers)}, {DType::u8, home()});
    renew_numbers(group);
  }
  return static_cast<const kernels::StepNumbers*>(group.numbers.data());
}

void Optimizer::Body::renew_numbers(const Group& group) const {
  if (!group.numbers.defined()) return;
  kernels::on(group.numbers.device())
      .write_step_numbers(static_cast<kernels::StepNumbers*>(group.numbers.data()),
                          rule->numbers(group.options));
}

void Optimizer::step() { step(kernels::StepControl()); }

void Optimizer::step(const Tensor& found_inf, const Tensor& inverse_scale) {
  step({.found_inf = device_float(found_inf), .inverse_scale = device_float(inverse_scale)});
}

void Optimizer::step(const kernels::StepControl& control) {
  Body& body = body_.in("optimizer.step");
  body.check_not_kept("optimizer.step", "step()");
  body.step(control);
}

Tensor Optimizer::step_after(const std::function<Tensor()>& closure) {
  Body& body = body_.in("optimizer.step");
  body.check_not_kept("optimizer.step", "step(closure)");
  if (body.rule->minimizes()) return body.rule->minimize(body, closure);
  Tensor loss;
  {
    const GradMode on_the_tape(true);
    loss = closure();
  }
  step();
  return loss;
}

void Optimizer::zero_grad() {
  body_.in("optimizer.zero_grad").check_not_kept("optimizer.zero_grad", "zero_grad()");
  body_->forget_clip();
  body_->for_each([](auto& parameter) { clear_grad(parameter.tensor); });
}

bool Optimizer::needs_whole_parameters() const { return body_->rule->needs_whole_parameters(); }
bool Optimizer::minimizes() const { return body_->rule->minimizes(); }
const char* Optimizer::name() const { return body_->rule->name(); }
Device Optimizer::device() const { return body_->device(); }

Parameters Optimizer::parameters() const {
  Parameters all;
  body_->for_each([&](const auto& p) { all.push_back({p.name, p.tensor}); });
  return all;
}

Parameters Optimizer::parameters_with_grad() const {
  Parameters all;
  body_->for_each([&](const auto& p) {
    if (p.tensor.grad().defined()) all.push_back({p.name, p.tensor});
  });
  return all;
}

std::vector<Tensor> Optimizer::gradients() const { return body_->gradients(); }

void Optimizer::add_group(const ParameterGroup& group) {
  {
    const GradientKeeper::Scope mine;  // reads memory, not a copy
    body_->settle_clip();
  }
  body_->add(group);
  try {
    for (const GroupListener& joined : body_->listeners) joined(*this, group.parameters);
    if (body_->makes_masters) body_->make_masters();
  } catch (...) {
    body_->groups.pop_back();
    throw;
  }
}

void Optimizer::on_new_group(GroupListener joined) {
  body_->listeners.push_back(std::move(joined));
}

int Optimizer::group_count() const { return static_cast<int>(body_->groups.size()); }

const OptimizerOptions& Optimizer::options(int group) const {
  check(group >= 0 && group < group_count(),
        "{}: parameter group out of range; got {}, want 0 to {}", name(), group, group_count() - 1);
  return body_->groups[group].options;
}

void Optimizer::set_option(int group, const std::string& option, double value) {
  set_options(group, merged(*body_->rule, options(group), {{option, value}}));
}

void Optimizer::set_options(int group, OptimizerOptions all) {
  options(group);  // throws if there is no such group
  check_options(*body_->rule, all);
  body_->groups[group].options = std::move(all);
  body_->renew_numbers(body_->groups[group]);
}

void Optimizer::set_lr(double lr) {
  for (int group = 0; group < group_count(); ++group) set_option(group, "lr", lr);
}

}  // namespace booster
