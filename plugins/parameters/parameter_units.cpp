#include "plugins/parameters/parameter_units.h"

#include "core/autograd/op_policy.h"
#include "core/autograd/policy_dtypes.h"
#include "core/autograd/tape.h"
#include "core/tensor/absence.h"
#include "parallel/operations/operation_tag.h"
#include "platform/trace.h"
#include "plugins/parameters/wrapped_modules.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace booster {

namespace {

constexpr size_t rest = 0;

std::string refusal_of(const std::string& name) {
  return "fsdp: " + name +
         " is spread over ranks; got a use outside of its module's passes, want WholeParameters "
         "around it. In forward, want an option wrap whose modules do not hold it";
}

}  // namespace

ParameterUnits::ParameterUnits(const Model& model, const Group& all, const Group& group,
                               const ParameterUnitOptions& options)
    : model_(model),
      group_(group),
      options_(options),
      self_(std::make_shared<ParameterUnits*>(this)) {
  const NoGradGuard no_grad;
  make_units(modules_to_wrap(model.module(), options.wrap, "fsdp: wrap"));
  for (Unit& unit : units_)
    for (Member& member : unit.members) cut(member, all);
  for (size_t i = 1; i < units_.size(); ++i) watch(i);
}

ParameterUnits::~ParameterUnits() {
  *self_ = nullptr;
  for (Unit& unit : units_) {
    if (!unit.module) continue;
    for (const int hook : unit.hooks) unit.module->remove_hook(hook);
    unit.module->set_recompute(false);
    for (const Member& member : unit.members) remove_grad_ready_hook(member.parameter, member.hook);
  }
}

// Makes the units. A parameter of several units belongs to the rest.
void ParameterUnits::make_units(const std::vector<Module*>& modules) {
  std::unordered_map<const TensorBody*, size_t> unit_of;
  for (size_t i = 0; i < modules.size(); ++i)
    for (const auto& [name, parameter] : modules[i]->parameters()) {
      const auto [place, is_new] = unit_of.emplace(parameter.body(), i + 1);
      if (!is_new) place->second = rest;
    }
  units_.resize(modules.size() + 1);
  for (size_t i = 0; i < modules.size(); ++i) units_[i + 1].module = modules[i];
  for (const auto& [name, parameter] : model_.parameters()) {
    const auto found = unit_of.find(parameter.body());
    Unit& unit = units_[found == unit_of.end() ? rest : found->second];
    unit.members.push_back({.name = name, .parameter = parameter});
  }
}

void ParameterUnits::cut(Member& member, const Group& all) const {
  all.broadcast(member.parameter);
  const RankParts parts{member.parameter.numel(), group_.size()};
  const Device device = options_.on_host ? Device{} : member.parameter.device();
  keep_part(member.parameter, parts.of(group_.rank()), device);
  give_back_memory(member.parameter, refusal_of(member.name));
}

void ParameterUnits::watch(size_t i) {
  Unit& unit = units_[i];
  unit.module->set_recompute(options_.recompute);
  unit.hooks = {
      unit.module->register_forward_pre_hook([this, i](Module&, const Tensors&) {
        use(i);
        return Tensors();
      }),
      unit.module->register_forward_hook(
          [this, i](Module&, const Tensors&, const Tensors& results) {
            after_forward(i, results);
            return Tensors();
          })};
  for (Member& member : unit.members)
    member.hook = on_grad_ready(member.parameter, [this, i](const Tensor&) { grad_arrived(i); });
}

void ParameterUnits::after_forward(size_t i, const Tensors& results) {
  const auto use_again = [self = self_, i](const Tensor&) {
    if (*self) (*self)->use(i);
    return Tensor();
  };
  for (const auto& [name, result] : results)
    if (result.requires_grad() && !result.is_leaf()) register_grad_hook(result, use_again);
  if (phase_ != Phase::backward) release(i);  // else its backward follows immediately
}

// Frees a unit in backward when all its gradients are complete: then every call that read its
// parameters has run backward. Frozen parameters complete no gradient and may be read later, so
// such a unit stays until the pass ends.
void ParameterUnits::grad_arrived(size_t i) {
  if (phase_ == Phase::backward && --units_[i].missing == 0) release(i);
}

void ParameterUnits::begin(Pass pass) {
  phase_ = pass == Pass::forward ? Phase::forward : Phase::backward;
  if (pass == Pass::backward) in_backward_ = true;
  last_ = rest;
  for (Unit& unit : units_) unit.missing = unit.members.size();
  use(rest);
}

// Leaves a pass. A forward pass may be part of a backward pass: the microbatch's backward follows.
void ParameterUnits::leave(Pass pass) {
  if (pass == Pass::backward) in_backward_ = false;
  phase_ = in_backward_ ? Phase::backward : Phase::outside;
}

void ParameterUnits::abandon(Pass pass, bool stay_whole) noexcept {
  leave(pass);
  if (stay_whole) return;
  for (Unit& unit : units_) {
    keep_writes(unit);
    give_back(unit);
  }
}

void ParameterUnits::end(Pass pass, bool stay_whole) {
  leave(pass);
  if (stay_whole) return gather_all();
  const bool backward_follows = pass == Pass::forward && grad_enabled();
  for (size_t i = backward_follows ? 1 : 0; i < units_.size(); ++i) release(i);
}

void ParameterUnits::keep_writes() {
  for (Unit& unit : units_) keep_writes(unit);
}

void ParameterUnits::drop_all() {
  for (Unit& unit : units_) drop(unit);
}

void ParameterUnits::release_all() {
  for (size_t i = 0; i < units_.size(); ++i) release(i);
}

void ParameterUnits::gather_all() {
  for (size_t i = 0; i < units_.size(); ++i) gather(i);
}

void ParameterUnits::use(size_t i) {
  gather(i);
  auto& next = next_[static_cast<size_t>(phase_)];
  if (i != last_) next[std::exchange(last_, i)] = i;
  size_t ahead = i;
  for (int64_t n = 0; n < options_.prefetch; ++n) {
    const auto found = next.find(ahead);
    if (found == next.end() || found->second == i) return;
    ahead = found->second;
    start(ahead);
  }
}

void ParameterUnits::start(size_t i) {
  Unit& unit = units_[i];
  if (unit.is_whole || !unit.arriving.empty()) return;
  const NoGradGuard no_grad;
  const MemoryScope memory(MemoryTag::parameters);
  std::map<DType, std::vector<size_t>> by_dtype;
  for (size_t m = 0; m < unit.members.size(); ++m)
    by_dtype[unit.members[m].parameter.dtype()].push_back(m);
  for (auto& [dtype, members] : by_dtype) {
    PackedParts packed(group_.size());
    for (const size_t m : members) packed.add(unit.members[m].parameter.numel());
    const Tensor own = own_parts(unit, members, packed);
    const Tensor all = empty({packed.elements()}, {dtype, own.device()});
    Work work = group_.all_gather_async(
        all, own, OperationTag::of(OperationTag::unit, static_cast<int64_t>(i), options_.training));
    unit.arriving.push_back({std::move(members), std::move(packed), all, std::move(work)});
  }
}

// Copies to a GPU without a wait of the host.
Tensor ParameterUnits::own_parts(const Unit& unit, const std::vector<size_t>& members,
                                 const PackedParts& packed) {
  const Tensor& any = unit.members[members[0]].parameter;
  const Device kept_on = kept_part(any).device();
  const bool travels = kept_on != any.device();
  if (travels && !staging_) staging_.emplace(any.device(), MemoryTag::parameters);
  const Tensor own = travels ? staging_->to_fill({packed.part()}, any.dtype())
                             : empty({packed.part()}, {any.dtype(), kept_on});
  for (size_t place = 0; place < members.size(); ++place)
    packed.own_place(own, place, group_.rank())
        .copy_(kept_part(unit.members[members[place]].parameter));
  return travels ? staging_->on_device(own) : own;
}

void ParameterUnits::gather(size_t i) {
  Unit& unit = units_[i];
  if (unit.is_whole) return;
  start(i);
  const kernels::TraceScope span("gather parameters", kernels::SpanKind::op);
  const NoGradGuard no_grad;
  for (Arriving& arriving : std::exchange(unit.arriving, {})) {
    arriving.work.wait();
    for (size_t place = 0; place < arriving.members.size(); ++place) {
      Member& member = unit.members[arriving.members[place]];
      take_memory(member.parameter);
      member.version = member.parameter.version();
      arriving.packed.unpack(arriving.all, place, member.parameter);
      member.parameter.body()->storage->version = member.version;  // the values are the same
    }
  }
  unit.is_whole = true;
}

void ParameterUnits::keep_writes(Unit& unit) {
  if (!unit.is_whole) return;
  const NoGradGuard no_grad;
  for (Member& member : unit.members) {
    const Tensor& parameter = member.parameter;
    if (parameter.version() == member.version) continue;
    keep_part(parameter, kept_range(parameter));
    member.version = parameter.version();
  }
}

void ParameterUnits::drop(Unit& unit) {
  for (const Arriving& arriving : std::exchange(unit.arriving, {})) arriving.work.wait();
  give_back(unit);
}

void ParameterUnits::give_back(Unit& unit) {
  if (!std::exchange(unit.is_whole, false)) return;
  for (const Member& member : unit.members) {
    forget_cast_copies(member.parameter);
    give_back_memory(member.parameter, refusal_of(member.name));
  }
}

void ParameterUnits::release(size_t i) {
  keep_writes(units_[i]);
  drop(units_[i]);
}

std::vector<Parameters> ParameterUnits::by_unit(const Parameters& parameters) const {
  std::vector<Parameters> groups(units_.size() + 1);
  std::unordered_map<const TensorBody*, size_t> unit_of;
  for (size_t i = 0; i < units_.size(); ++i)
    for (const Member& member : units_[i].members) unit_of[member.parameter.body()] = i;
  for (const NamedTensor& parameter : parameters) {
    const auto found = unit_of.find(parameter.tensor.body());
    groups[found == unit_of.end() ? units_.size() : found->second].push_back(parameter);
  }
  std::ranges::reverse(groups);
  std::erase_if(groups, [](const Parameters& group) { return group.empty(); });
  return groups;
}

}  // namespace booster
