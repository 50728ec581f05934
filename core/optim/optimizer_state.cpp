// Saves and loads an optimizer by parameter names, whole or in parts.
#include "core/optim/optimizer_body.h"
#include "core/optim/update_rule.h"
#include "platform/error.h"

#include <set>

namespace booster {
namespace {

constexpr const char* master_name = "master";
constexpr const char* compensation_name = "compensation";
constexpr const char* average_name = "average";

void check_tensor(const std::string& name, const Tensor& got, const Shape& shape, DType dtype) {
  check(got.defined() && got.shape() == shape && got.dtype() == dtype,
        "load_state_dict: {} does not match; got {} {}, want {} {}", name,
        got.defined() ? name_of(got.dtype()) : "undefined",
        got.defined() ? got.shape().to_string() : "", name_of(dtype), shape);
}

void check_part(const OptimizedParameter& parameter, const OwnedPart& saved) {
  check(saved.shape == parameter.tensor.shape(),
        "load_state_dict: parameter {} was saved with another shape; got {}, want {}",
        parameter.name, saved.shape, parameter.tensor.shape());
  check(saved.range.contains(parameter.owned()) || parameter.owned().size() == 0,
        "load_state_dict: the saved part of parameter {} does not cover the owned part; got [{}, "
        "{}), want [{}, {}) or more",
        parameter.name, saved.range.begin, saved.range.end, parameter.owned().begin,
        parameter.owned().end);
}

// Takes values out of a saved state, checks them, and finally reports unused ones.
class Reader {
 public:
  explicit Reader(const OptimizerState& state) : state_(state) {}

  // Returns the owned elements of a saved tensor; undefined if it is absent.
  Tensor tensor(const OptimizedParameter& parameter, const std::string& kind, DType dtype) {
    const auto found = state_.tensors.find(parameter.name + "." + kind);
    if (found == state_.tensors.end()) return {};
    used_.insert(found->first);
    const auto& [name, saved] = *found;
    const ElementRange held = range_of(parameter, saved);
    const bool whole = held == parameter.all();
    check_tensor(name, saved, whole ? parameter.tensor.shape() : Shape{held.size()}, dtype);
    const Tensor dense = untracked::contiguous(saved);
    if (held == parameter.owned()) return dense;
    // Copies, because a window would keep the memory of the whole tensor.
    return untracked::clone(OptimizedParameter::window(dense, held, parameter.owned()));
  }
  // Returns a saved tensor of a rule that keeps whole ones; undefined if it is absent.
  Tensor whole(const OptimizedParameter& parameter, const RuleState& state, DType dtype) {
    const auto found = state_.tensors.find(parameter.name + "." + state.name);
    if (found == state_.tensors.end()) return {};
    used_.insert(found->first);
    Shape shape = state.shape;
    if (shape.ndim() > 0 && shape[0] < 0 && found->second.defined() && found->second.ndim() > 0)
      shape[0] = found->second.size(0);
    check_tensor(found->first, found->second, shape, dtype);
    return untracked::contiguous(found->second);
  }
  // Returns the saved tensor for the current precision's tensor (`now`). Throws if only one of the
  // two exists; undefined if neither does.
  Tensor beside(const OptimizedParameter& parameter, const char* kind, const Tensor& now,
                DType dtype) {
    const Tensor saved = tensor(parameter, kind, dtype);
    check(saved.defined() == now.defined(),
          "load_state_dict: {} of parameter {}; got {}, want {} (saved under another precision)",
          kind, parameter.name, saved.defined() ? "one" : "none", now.defined() ? "one" : "none");
    return saved;
  }
  int64_t step(const OptimizedParameter& parameter) const {
    const auto found = state_.steps.find(parameter.name);
    check(found != state_.steps.end(), "load_state_dict: nothing is saved for parameter {}",
          parameter.name);
    check(found->second >= 0,
          "load_state_dict: step count of {} is out of range; got {}, want >= 0", parameter.name,
          found->second);
    return found->second;
  }
  void check_all_used(size_t parameters) const {
    for (const auto& [name, tensor] : state_.tensors)
      check(used_.count(name), "load_state_dict: {} belongs to no parameter of the optimizer",
            name);
    check(state_.steps.size() == parameters,
          "load_state_dict: saved for other parameters; got {}, want {}", state_.steps.size(),
          parameters);
  }

 private:
  // Returns the elements that a saved tensor covers.
  ElementRange range_of(const OptimizedParameter& parameter, const Tensor& saved) const {
    const bool whole = saved.defined() && saved.shape() == parameter.tensor.shape();
    if (whole) return parameter.all();
    const auto part = state_.parts.find(parameter.name);
    if (part == state_.parts.end()) return parameter.owned();
    check_part(parameter, part->second);
    return part->second.range;
  }

  const OptimizerState& state_;
  std::set<std::string> used_;
};

// Returns the parameter with the saved state.
OptimizedParameter loaded(const OptimizedParameter& now, Reader& reader, const UpdateRule& rule,
                          const OptimizerOptions& options) {
  OptimizedParameter next = now;
  const int64_t steps = reader.step(now);
  next.state = {};
  const std::vector<RuleState> kinds = rule.states(options, now.tensor.shape());
  for (size_t i = 0; i < kinds.size(); ++i) {
    const DType dtype = now.state_dtype();
    const Tensor saved = rule.needs_whole_parameters() ? reader.whole(now, kinds[i], dtype)
                                                       : reader.tensor(now, kinds[i].name, dtype);
    check(saved.defined() == (steps > 0),
          "load_state_dict: {} of parameter {} after {} steps; got {}", kinds[i].name, now.name,
          steps, saved.defined() ? "a tensor, want none" : "nothing, want a tensor");
    if (saved.defined()) next.state[i] = untracked::to(saved, now.home());
    set_memory_tag(next.state[i], MemoryTag::optimizer_state);
  }
  next.master = reader.beside(now, master_name, now.master, now.state_dtype());
  const DType dtype = now.tensor.dtype();
  const Tensor saved = reader.beside(now, compensation_name, now.compensation, dtype);
  if (saved.defined()) next.compensation = untracked::to(saved, now.home());
  // A training may start or stop averaging between saving and resuming.
  const Tensor average = reader.tensor(now, average_name, now.state_dtype());
  next.average = {};
  if (now.average.defined() && average.defined()) next.average = untracked::to(average, now.home());
  return next;
}

// Writes loaded values into the current master's memory, to which other handles may refer, and into
// the parameter.
void keep_master(const Tensor& master, OptimizedParameter& loaded) {
  if (!master.defined()) return;
  master.detach().copy_(loaded.master);
  loaded.working().copy_(loaded.master);
  loaded.keep_master(master);
}

void put_in_force(Optimizer::Body& body, std::vector<Optimizer::Body::Group> next,
                  const std::vector<int64_t>& group_steps,
                  const std::map<std::string, int64_t>& steps) {
  for (size_t i = 0; i < next.size(); ++i) {
    next[i].steps.set(group_steps[i], body.home());
    body.renew_numbers(next[i]);
    for (size_t j = 0; j < next[i].parameters.size(); ++j) {
      OptimizedParameter& parameter = next[i].parameters[j];
      const OptimizedParameter& before = body.groups[i].parameters[j];
      keep_master(before.master, parameter);
      if (before.average.defined() && !parameter.average.defined()) parameter.begin_average();
      parameter.steps.set(steps.at(parameter.name), body.home());
    }
  }
  body.groups = std::move(next);
  body.forget_clip();
}

}  // namespace

OptimizerState Optimizer::state_dict() const {
  body_->for_each([](OptimizedParameter& p) { p.refresh_master(); });
  OptimizerState state;
  state.rule = name();
  for (const auto& group : body_->groups) {
    state.groups.push_back({group.options, body_->rule->counts_by_group() ? group.steps.taken() : 0,
                            group.constructed, group.names()});
    for (const auto& p : group.parameters) {
      const auto kinds = body_->rule->states(group.options, p.tensor.shape());
      const int64_t taken = state.steps[p.name] = p.steps.taken();
      for (size_t i = 0; i < kinds.size(); ++i)
        if (taken > 0 && p.state[i].defined())
          state.tensors[p.name + "." + kinds[i].name] = p.state[i];
      if (p.master.defined()) state.tensors[p.name + "." + master_name] = p.master;
      if (p.compensation.defined())
        state.tensors[p.name + "." + compensation_name] = p.compensation;
      if (p.average.defined()) state.tensors[p.name + "." + average_name] = p.average;
      if (!p.is_owned_whole()) state.parts[p.name] = {p.tensor.shape(), p.owned()};
    }
  }
  return state;
}

namespace {

void check_groups(size_t saved, size_t now) {
  check(saved == now, "load_state_dict: number of parameter groups differs; got {}, want {}", saved,
        now);
}

// Returns the parameters that both have in different groups, in this optimizer's order.
std::vector<MovedParameter> moved_parameters(const OptimizerState& saved,
                                             const std::vector<Optimizer::Body::Group>& groups) {
  std::map<std::string, int> before;
  for (size_t i = 0; i < saved.groups.size(); ++i)
    for (const std::string& name : saved.groups[i].parameters)
      before.emplace(name, static_cast<int>(i));
  std::vector<MovedParameter> moved;
  for (size_t i = 0; i < groups.size(); ++i)
    for (const std::string& name : groups[i].names())
      if (const auto found = before.find(name);
          found != before.end() && found->second != static_cast<int>(i))
        moved.push_back({name, found->second, static_cast<int>(i)});
  return moved;
}

void check_not_moved(const OptimizerState& saved,
                     const std::vector<Optimizer::Body::Group>& groups) {
  const std::vector<MovedParameter> moved = moved_parameters(saved, groups);
  if (moved.empty()) return;
  const auto& [name, before, now] = moved.front();
  fail(
      "load_state_dict: {} of {} parameters were saved in another group and would train with other "
      "options; got {} in group {}, want group {} as saved, or adopt_moved_parameters first",
      moved.size(), saved.steps.size(), name, now, before);
}

}  // namespace

std::vector<MovedParameter> Optimizer::adopt_moved_parameters(OptimizerState& saved) const {
  check_groups(saved.groups.size(), body_->groups.size());
  const std::vector<MovedParameter> moved = moved_parameters(saved, body_->groups);
  for (size_t i = 0; i < saved.groups.size() && !moved.empty(); ++i)
    saved.groups[i].parameters = body_->groups[i].names();
  return moved;
}

std::vector<ChangedOption> Optimizer::adopt_changed_options(OptimizerState& saved) const {
  check_groups(saved.groups.size(), body_->groups.size());
  const UpdateRule& rule = *body_->rule;
  std::vector<ChangedOption> changes;
  for (size_t i = 0; i < saved.groups.size(); ++i) {
    auto& group = saved.groups[i];
    for (const auto& [name, value] : body_->groups[i].constructed) {
      const auto before = group.constructed.find(name);
      check(before != group.constructed.end(), "{}: the saved option {} is missing", rule.name(),
            name);
      if (before->second == value) continue;
      OptimizerOptions changed = group.options;
      changed[name] = value;
      check(rule.state_names(changed) == rule.state_names(group.options),
            "{}: {} cannot change between saving and resuming, because the state would differ; got "
            "{}, want {}",
            rule.name(), name, value, before->second);
      group.options = std::move(changed);
      changes.push_back({static_cast<int>(i), name, before->second, value});
    }
  }
  return changes;
}

void Optimizer::load_state_dict(const OptimizerState& state) {
  OptimizerState copy = state;
  for (auto& [name, tensor] : copy.tensors)
    if (tensor.defined()) tensor = untracked::clone(tensor);
  prepare_load(copy)();
}

std::function<void()> Optimizer::prepare_load(const OptimizerState& state) {
  check(state.rule == name(), "load_state_dict: saved by another optimizer; got {}, want {}",
        state.rule, name());
  check_groups(state.groups.size(), body_->groups.size());
  check_not_moved(state, body_->groups);
  Reader reader(state);
  std::vector<Body::Group> next;
  size_t parameters = 0;
  for (size_t i = 0; i < state.groups.size(); ++i) {
    const OptimizerOptions& options = state.groups[i].options;
    check_options(*body_->rule, options);
    const Body::Group& group = body_->groups[i];
    check(state.groups[i].step >= 0,
          "load_state_dict: step count of group {} is out of range; got {}, want >= 0", i,
          state.groups[i].step);
    next.push_back({{}, options, group.constructed, group.steps, group.numbers});
    for (const auto& now : group.parameters)
      next.back().parameters.push_back(loaded(now, reader, *body_->rule, options));
    parameters += next.back().parameters.size();
  }
  reader.check_all_used(parameters);
  std::vector<int64_t> group_steps;
  for (const auto& group : state.groups) group_steps.push_back(group.step);
  return [this_body = body_, next = std::make_shared<std::vector<Body::Group>>(std::move(next)),
          group_steps,
          steps = state.steps] { put_in_force(*this_body, std::move(*next), group_steps, steps); };
}

}  // namespace booster
