#include "core/optim/optimizer.h"

#include "core/autograd/tape.h"
#include "core/optim/clip.h"
#include "core/optim/optimizer_body.h"
#include "kernels/system/error.h"

#include <algorithm>

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
  check(tensor.is_contiguous(), "{}: parameter {} is not contiguous; got shape {} and strides {}",
        rule, name, tensor.shape(), tensor.strides());
}

void check_distinct(const char* rule, const OptimizedParameter& known, const NamedTensor& added) {
  check(!known.tensor.same_body(added.tensor),
        "{}: a parameter is given twice; got {} and {}, want each in one group", rule, known.name,
        added.name);
  check(known.name != added.name, "{}: two parameters are called {}; want a name for each", rule,
        added.name);
  check(known.tensor.device() == added.tensor.device(),
        "{}: parameters {} and {} are on different devices; want an optimizer for each", rule,
        known.name, added.name);
}

}  // namespace

ParameterGroups::ParameterGroups(Parameters parameters) : groups_{{std::move(parameters), {}}} {}
ParameterGroups::ParameterGroups(const std::vector<Tensor>& tensors)
    : groups_{{numbered(tensors), {}}} {}

Optimizer::Optimizer(std::unique_ptr<UpdateRule> rule, ParameterGroups groups, Options defaults)
    : body_(std::make_shared<Body>()) {
  check_options(*rule, defaults);
  body_->rule = std::move(rule);
  body_->defaults = std::move(defaults);
  check(!groups.list().empty(), "{}: no parameters; got an empty list", name());
  for (const auto& group : groups.list()) body_->add(group);
}

void Optimizer::Body::add(const ParameterGroup& added) {
  check(!added.parameters.empty(), "{}: no parameters; got an empty list as group {}", rule->name(),
        groups.size());
  Group group;
  group.options = merged(*rule, defaults, added.options);
  for (const auto& parameter : added.parameters) {
    check_parameter(rule->name(), parameter);
    for_each([&](const auto& known) { check_distinct(rule->name(), known, parameter); });
    for (const auto& known : group.parameters) check_distinct(rule->name(), known, parameter);
    group.parameters.push_back({.name = parameter.name, .tensor = parameter.tensor});
  }
  groups.push_back(std::move(group));
  if (makes_masters) make_masters();
}

void Optimizer::Body::make_masters() {
  makes_masters = true;
  for_each([](auto& parameter) {
    const bool rounds = parameter.rounding != UpdateRounding::nearest;
    if (!is_16_bit(parameter.tensor.dtype()) || parameter.master.defined() || rounds) return;
    parameter.keep_master(untracked::cast(parameter.tensor.detach(), DType::f32));
    set_memory_tag(parameter.master, MemoryTag::masters);
  });
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
    for (const auto& parameter : group.parameters)
      if (parameter.tensor.grad().defined()) gradients.push_back(dense_grad(parameter.tensor));
  return gradients;
}

void Optimizer::Body::forget_clip() {
  clip_factor = clipped_norm = Tensor();
  clipped.clear();
}

// The norm of gradients that an f32 factor on the device will multiply.
Tensor norm_of_products(const Tensor& norm, const Tensor& factor) {
  const Tensor result = norm.clone(), wide = untracked::cast(factor, norm.dtype());
  kernels::on(norm.device())
      .binary(kernels::BinaryOp::mul, result.view(), result.view(), wide.view());
  return result;
}

void Optimizer::Body::apply_clip() {
  if (clip_factor.defined()) scale_gradients(gradients(), clip_factor);
  clip_factor = Tensor();
}

void Optimizer::step(const kernels::StepControl& control) { body_->step(control); }

void Optimizer::zero_grad() {
  body_->forget_clip();
  body_->for_each([](auto& parameter) { clear_grad(parameter.tensor); });
}

double Optimizer::clip_grad_by_norm(double max_norm, double power, const Tensor& factor) {
  body_->apply_clip();
  Tensor norm = gradient_norm(body_->gradients(), power);
  if (factor.defined()) norm = norm_of_products(norm, factor);
  body_->clip_factor = clip_factor(norm, max_norm);
  body_->clipped_norm = norm;
  body_->clipped.clear();
  for (const Tensor& gradient : body_->gradients())
    body_->clipped.emplace_back(gradient, gradient.version());
  return norm.item();
}

Tensor Optimizer::clipped_norm() const {
  const auto is_clipped = [](const Tensor& gradient, const auto& clipped) {
    return gradient.same_body(clipped.first) && gradient.version() == clipped.second;
  };
  const bool same = std::ranges::equal(body_->gradients(), body_->clipped, is_clipped);
  return same ? body_->clipped_norm : Tensor();
}

void Optimizer::settle_clip() { body_->apply_clip(); }

std::vector<Tensor> Optimizer::gradients() const { return body_->gradients(); }

void Optimizer::clip_grad_by_value(double limit) {
  body_->apply_clip();
  clip_grad_value_(parameters(), limit);
}

const char* Optimizer::name() const { return body_->rule->name(); }
Device Optimizer::device() const { return body_->groups[0].parameters[0].tensor.device(); }

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

void Optimizer::add_group(const ParameterGroup& group) { body_->add(group); }

int Optimizer::group_count() const { return static_cast<int>(body_->groups.size()); }

const Options& Optimizer::options(int group) const {
  check(group >= 0 && group < group_count(), "{}: no such parameter group; got {}, want 0 to {}",
        name(), group, group_count() - 1);
  return body_->groups[group].options;
}

void Optimizer::set_option(int group, const std::string& option, double value) {
  Options changed = merged(*body_->rule, options(group), {{option, value}});
  body_->groups[group].options = std::move(changed);
}

void Optimizer::set_lr(double lr) {
  for (int group = 0; group < group_count(); ++group) set_option(group, "lr", lr);
}

void Optimizer::set_master(const std::string& name, Tensor master) {
  OptimizedParameter& parameter = body_->find("set_master", name);
  const Tensor& tensor = parameter.tensor;
  check(is_16_bit(tensor.dtype()), "set_master: parameter {} needs none; got {}, want f16 or bf16",
        name, name_of(tensor.dtype()));
  check(master.defined() && master.dtype() == DType::f32 && master.shape() == tensor.shape() &&
            master.device() == tensor.device() && master.is_contiguous(),
        "set_master: master of {} does not fit; got {} {}, want f32 {}, dense, on the same device",
        name, master.defined() ? name_of(master.dtype()) : "undefined",
        master.defined() ? master.shape().to_string() : "", tensor.shape().to_string());
  check(parameter.rounding == UpdateRounding::nearest,
        "set_master: parameter {} has a rounding that loses no update; want one or the other",
        name);
  set_memory_tag(master, MemoryTag::masters);
  parameter.keep_master(std::move(master));
}

void Optimizer::set_rounding(const std::string& name, UpdateRounding rounding, uint32_t seed) {
  OptimizedParameter& parameter = body_->find("set_rounding", name);
  check(rounding == UpdateRounding::nearest || parameter.tensor.dtype() == DType::bf16,
        "set_rounding: parameter {} does not fit; got {}, want bf16", name,
        name_of(parameter.tensor.dtype()));
  check(rounding == UpdateRounding::nearest || !parameter.master.defined(),
        "set_rounding: parameter {} has a master, which loses no update; want one or the other",
        name);
  uint64_t index = 0;
  for (const auto& before : parameters()) {
    if (before.name == name) break;
    ++index;
  }
  parameter.rounding = rounding;
  parameter.noise_seed = uint64_t{seed} << 32 | index;
  const MemoryScope memory(MemoryTag::optimizer_state);
  parameter.compensation =
      rounding == UpdateRounding::kahan ? zeros_like(parameter.tensor.detach()) : Tensor();
}

void Optimizer::make_masters() { body_->make_masters(); }

Parameters Optimizer::master_parameters() const {
  Parameters all;
  body_->for_each([&](const auto& p) { all.push_back({p.name, p.value()}); });
  return all;
}

Tensor Optimizer::master(const std::string& name) const {
  return body_->find("master", name).master;
}

}  // namespace booster
