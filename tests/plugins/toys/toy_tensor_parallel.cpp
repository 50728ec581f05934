#include "tests/plugins/toys/toy_tensor_parallel.h"

#include "core/optim/clip.h"
#include "tests/plugins/toys/pair.h"
#include "tests/plugins/toys/rank_norms.h"

namespace booster::toys {

namespace {

// Returns the dimension along which a parameter or its optimizer state is cut; -1: whole, such as a
// step count.
int cut_of(const NamedTensor& held, const std::map<std::string, int>& cuts) {
  for (const auto& [parameter, dim] : cuts)
    if (lies_in(held.name, parameter) && is_floating(held.tensor.dtype())) return dim;
  return -1;
}

}  // namespace

void ToyTensorParallel::shard(const Model& model, const Optimizers& optimizers) {
  optimizers_ = optimizers;
  for (const NamedTensor& held : model.state_dict()) mesh_.world().broadcast(held.tensor);
  for (const auto& [name, module] : model->named_modules())
    if (auto* pair = dynamic_cast<Pair*>(module)) {
      pair->cut(mesh_.group("tensor"));
      cuts_.insert({{name + ".up.weight", 0}, {name + ".up.bias", 0}, {name + ".down.weight", 1}});
    }
  for (Optimizer optimizer : optimizers) optimizer.share_norms(norms_of(optimizer));
}

// Values that all ranks of the tensor group share count once.
NormSharing ToyTensorParallel::norms_of(const Optimizer& optimizer) const {
  std::vector<Tensor> apart, here;
  for (const NamedTensor& parameter : optimizer.parameters())
    (cut_of(parameter, cuts_) < 0 ? here : apart).push_back(parameter.tensor);
  const auto norm = [=, group = mesh_.group("tensor")](double power) {
    return norm_over(group, gradients_of(apart), gradients_of(here), power);
  };
  const auto add = [cuts = cuts_, group = mesh_.group("tensor")](const Tensor& squares,
                                                                 const Parameters& parameters) {
    for (size_t i = 0; i < parameters.size(); ++i)
      if (cut_of(parameters[i], cuts) >= 0)
        group.all_reduce(untracked::narrow(squares, 0, 2 * static_cast<int64_t>(i), 2));
  };
  return {.gradient_norm = norm, .add_squares = add};
}

PassScope ToyTensorParallel::begin(const PassStart& start) {
  if (start.pass == Pass::forward) return {};
  return {{.end = [this, sync = start.sync] {
    has_local_ = true;
    if (sync) exchange();
  }}};
}

// The ranks of a data group treat equal gradients equally, so averaging earlier gradients again
// changes nothing.
void ToyTensorParallel::exchange() {
  const Group& copies = mesh_.group("data");
  if (!std::exchange(has_local_, false) || copies.size() == 1) return;
  for (const Optimizer& optimizer : optimizers_)
    for (const auto& [name, tensor] : optimizer.parameters_with_grad())
      copies.all_reduce(dense_grad(tensor), CollectiveOp::mean);
}

// All ranks have the same layers, or parts of the same layers.
void ToyTensorParallel::agree(Tensor& numbers, Among) {
  mesh_.world().all_reduce(numbers, CollectiveOp::max);
}

void ToyTensorParallel::join(StateDict& state) const {
  for (NamedTensor& held : state)
    if (const int dim = cut_of(held, cuts_); dim >= 0)
      held.tensor = whole_of(held.tensor, dim, mesh_.group("tensor"));
}

void ToyTensorParallel::split(StateDict& state) const {
  for (NamedTensor& held : state)
    if (const int dim = cut_of(held, cuts_); dim >= 0)
      held.tensor = part_of(held.tensor, dim, mesh_.group("tensor"));
}

}  // namespace booster::toys
