#include "core/optim/parameter_average.h"

namespace booster {
namespace {

// What the optimizer updates for a parameter.
Tensor value_of(const Optimizer& optimizer, const std::string& name, const Tensor& parameter) {
  const Tensor master = optimizer.master(name);
  check(!master.defined() || master.shape() == parameter.shape(),
        "ParameterAverage: parameter {} has its master on several ranks; got {} of {} elements "
        "here, want all",
        name, master.defined() ? master.numel() : 0, parameter.numel());
  return master.defined() ? master : parameter.detach();
}

// A fresh copy of at least f32.
Tensor wide_copy(const Tensor& value) {
  return value.dtype() == DType::f64 ? value.clone() : untracked::cast(value, DType::f32).clone();
}

}  // namespace

ParameterAverage::ParameterAverage(const Optimizer& optimizer, double decay)
    : optimizer_(optimizer), decay_(decay) {
  check(decay >= 0 && decay <= 1, "ParameterAverage: decay is out of range; got {}, want [0, 1]",
        decay);
  for (const auto& [name, parameter] : optimizer.parameters())
    entries_.push_back({name, parameter, wide_copy(value_of(optimizer, name, parameter))});
}

void ParameterAverage::update() {
  for (Entry& entry : entries_) {
    const Tensor value = value_of(optimizer_, entry.name, entry.parameter);
    entry.average.mul_(decay_).add_(untracked::cast(value, entry.average.dtype()), 1 - decay_);
  }
}

std::map<std::string, Tensor> ParameterAverage::state_dict() const {
  std::map<std::string, Tensor> state;
  for (const Entry& entry : entries_) state.emplace(entry.name, entry.average);
  return state;
}

void ParameterAverage::load_state_dict(const std::map<std::string, Tensor>& state) {
  for (const Entry& entry : entries_) {
    const auto found = state.find(entry.name);
    check(found != state.end(), "ParameterAverage: the state has no {}", entry.name);
    check(found->second.shape() == entry.average.shape(),
          "ParameterAverage: {} has another shape; got {}, want {}", entry.name,
          found->second.shape(), entry.average.shape());
  }
  check(state.size() == entries_.size(),
        "ParameterAverage: the state has parameters that the optimizer lacks; got {}, want {}",
        state.size(), entries_.size());
  for (Entry& entry : entries_) entry.average.copy_(state.at(entry.name));
}

AveragedWeights::AveragedWeights(ParameterAverage& average) : average_(average) {
  for (auto& [name, parameter, mean] : average.entries_) {
    before_.push_back(parameter.clone());
    parameter.detach().copy_(mean);
  }
}

AveragedWeights::~AveragedWeights() {
  auto before = before_.begin();
  for (auto& [name, parameter, mean] : average_.entries_) {
    parameter.detach().copy_(*before++);
    // Else the optimizer would take the restored 16-bit numbers for new ones.
    const Tensor master = average_.optimizer_.master(name);
    if (master.defined()) average_.optimizer_.set_master(name, master);
  }
}

}  // namespace booster
