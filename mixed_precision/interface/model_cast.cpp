#include "mixed_precision/interface/precision.h"

#include "core/autograd/tape.h"
#include "core/tensor/absence.h"

namespace booster {
namespace {

// A parameter of an optimizer, and its values before the cast.
struct Original {
  Optimizer optimizer;
  std::string name;
  Tensor parameter;
  Tensor numbers;
};

std::vector<Original> originals_of(const std::vector<Optimizer>& optimizers) {
  std::vector<Original> originals;
  for (const Optimizer& optimizer : optimizers)
    for (const auto& [name, parameter] : optimizer.parameters())
      originals.push_back({optimizer, name, parameter, numbers_here(parameter)});
  return originals;
}

// Returns the parameter's old memory as master, or a copy if something else refers to it. The cast
// gives the parameter new memory.
Tensor as_master(const Tensor& numbers) {
  if (numbers.dtype() != DType::f32) return untracked::cast(numbers, DType::f32);
  const bool shared = numbers.body()->storage->references() > 1;
  return shared ? untracked::clone(numbers) : numbers;
}

}  // namespace

void cast_models(const std::vector<Model>& models, const std::vector<Optimizer>& optimizers,
                 const ModelCast& cast) {
  check(is_16_bit(cast.dtype) || (cast.dtype == DType::f64 && !cast.masters),
        "cast_model: wrong dtype; got {}, want f16 or bf16, or f64 without masters",
        name_of(cast.dtype));
  std::vector<Original> originals = originals_of(optimizers);
  for (const Model& model : models)
    for (const auto& [name, module] : model->named_modules())
      if (!cast.keep || !cast.keep(name, *module)) module->convert_own(cast.dtype);
  if (!cast.masters) return;
  for (auto& [optimizer, name, parameter, numbers] : originals)
    if (is_16_bit(parameter.dtype()) && !optimizer.master(name).defined())
      optimizer.set_master(name, as_master(numbers));
  for (Optimizer optimizer : optimizers) optimizer.make_masters();  // for groups added later
}

void cast_model(const Model& model, const ModelCast& cast) { cast_models({model}, {}, cast); }
void cast_model(const Model& model, Optimizer& optimizer, const ModelCast& cast) {
  cast_models({model}, {optimizer}, cast);
}

bool is_affine_batch_norm(const std::string&, const Module& module) {
  return !module.own(Role::batch_norm).empty() && !module.parameters().empty();
}

}  // namespace booster
