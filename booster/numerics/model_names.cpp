#include "booster/numerics/model_names.h"

namespace booster::numerics {

ModelNames::ModelNames(const Model& model, const Optimizer& optimizer) : model_(model) {
  add(model.state_dict());
  add(optimizer.parameters());
  for (const auto& [name, module] : model->named_modules())
    modules_.emplace(module, name.empty() ? "model" : name);
}

void ModelNames::add(const Parameters& parameters) {
  for (const NamedTensor& parameter : parameters)
    if (tensors_.emplace(parameter.tensor.body(), parameter.name).second)
      held_.push_back(parameter);
}

std::string ModelNames::of(const Tensor& x) const {
  const auto found = x.defined() ? tensors_.find(x.body()) : tensors_.end();
  return found == tensors_.end() ? "" : found->second;
}

std::string ModelNames::of(const Module& module) const {
  const auto found = modules_.find(&module);
  return found == modules_.end() ? module.kind() : found->second;
}

std::string ModelNames::layer_of(std::span<const Tensor> tensors) const {
  for (const Tensor& x : tensors) {
    const std::string name = of(x);
    if (name.empty()) continue;
    const size_t dot = name.rfind('.');
    return dot == name.npos ? "model" : name.substr(0, dot);
  }
  return "";
}

}  // namespace booster::numerics
