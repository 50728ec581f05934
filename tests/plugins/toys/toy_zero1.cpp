#include "tests/plugins/toys/toy_zero1.h"

#include "core/autograd/leaf_gradients.h"
#include "core/optim/clip.h"
#include "tests/plugins/toys/rank_norms.h"
#include "tests/plugins/toys/ranges.h"

namespace booster::toys {

void ToyZero1::shard(const Model& model, const Optimizers& optimizers) {
  for (const NamedTensor& held : model.state_dict()) group().broadcast(held.tensor);
  for (Optimizer optimizer : optimizers) {
    std::vector<Tensor> mine;
    for (const NamedTensor& parameter : optimizer.parameters()) {
      optimizer.own(parameter.name, range_of(parameter.tensor, group().rank(), group()));
      all_.push_back({parameter});
      mine.push_back(parameter.tensor);
    }
    const auto norm = [mine, group = group()](double power) {
      std::vector<Tensor> parts;
      for (const Tensor& gradient : gradients_of(mine))
        parts.push_back(own_window(gradient, group));
      return norm_over(group, parts, {}, power);
    };
    const auto add = [group = group()](const Tensor& squares, const Parameters&) {
      group.all_reduce(squares);
    };
    optimizer.share_norms({.gradient_norm = norm, .add_squares = add});
  }
}

DataLoader ToyZero1::prepare_dataloader(std::shared_ptr<const Dataset> dataset,
                                        DataLoaderOptions options) const {
  options.rank = group().rank();
  options.world_size = group().size();
  return DataLoader(std::move(dataset), std::move(options));
}

// Earlier gradients are global, but only in the owned part: a clip or a change of the loss scale
// changes nothing else. They are set aside, so that only new gradients are communicated.
PassScope ToyZero1::begin(const PassStart& start) {
  if (start.pass == Pass::forward) return {};
  for (Sharded& one : all_) {
    const Tensor& parameter = one.parameter.tensor;
    if (!parameter.grad().defined())
      one.before = {};  // after zero_grad
    else if (!one.has_local)
      one.before = parameter.grad();
    else
      continue;
    one.has_local = false;
    clear_grad(parameter);
  }
  return {{.end = [this, sync = start.sync] { end_backward(sync); }}};
}

void ToyZero1::end_backward(bool sync) {
  for (Sharded& one : all_) {
    const Tensor& parameter = one.parameter.tensor;
    one.has_local = parameter.grad().defined();
    if (!one.has_local) parameter.set_grad(std::exchange(one.before, {}));
  }
  if (sync) exchange();
}

void ToyZero1::exchange() {
  for (Sharded& one : all_) {
    const Tensor& parameter = one.parameter.tensor;
    if (!std::exchange(one.has_local, false) || !parameter.grad().defined()) continue;
    group().all_reduce(dense_grad(parameter), CollectiveOp::mean);
    if (!one.before.defined()) continue;
    one.before.add_(parameter.grad());
    parameter.set_grad(std::exchange(one.before, {}));
  }
}

void ToyZero1::agree(Tensor& numbers, Among) { group().all_reduce(numbers, CollectiveOp::max); }

void ToyZero1::sync_params(const Optimizers& stepped) {
  for (const Optimizer& optimizer : stepped)
    for (const auto& [name, tensor] : optimizer.parameters()) gather_ranges(tensor, group());
}

Tensor ToyZero1::kept_for(const NamedTensor& held) const {
  for (const auto& [parameter, before, has_local] : all_)
    if (held.name != parameter.name && lies_in(held.name, parameter.name))
      return is_floating(held.tensor.dtype()) ? parameter.tensor : Tensor();  // counts are whole
  return {};
}

void ToyZero1::join(StateDict& state) const {
  for (NamedTensor& held : state)
    if (const Tensor parameter = kept_for(held); parameter.defined()) {
      const Tensor whole = empty(parameter.shape(), {held.tensor.dtype(), held.tensor.device()});
      own_window(whole, group()).copy_(held.tensor);
      gather_ranges(whole, group());
      held.tensor = whole;
    }
}

void ToyZero1::split(StateDict& state) const {
  for (NamedTensor& held : state)
    if (kept_for(held).defined()) held.tensor = own_window(held.tensor, group()).clone();
}

}  // namespace booster::toys
