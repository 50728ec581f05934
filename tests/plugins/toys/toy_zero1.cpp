#include "tests/plugins/toys/toy_zero1.h"

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

// What earlier passes left is global, but only in the part that is owned: a clip or a change of the
// loss scale touches nothing else. It is put aside, so that only what is new is exchanged.
void ToyZero1::begin(Pass pass, bool sync) {
  if (pass == Pass::forward) return;
  syncs_ = sync;
  for (Sharded& one : all_) {
    const Tensor& parameter = one.parameter.tensor;
    if (!parameter.grad().defined()) one.before = {};  // zero_grad
    else if (!one.has_local) one.before = parameter.grad();
    else continue;
    one.has_local = false;
    clear_grad(parameter);
  }
}

void ToyZero1::end(Pass pass) {
  if (pass == Pass::forward) return;
  for (Sharded& one : all_) {
    const Tensor& parameter = one.parameter.tensor;
    one.has_local = parameter.grad().defined();
    if (!one.has_local) parameter.set_grad(std::exchange(one.before, {}));
  }
  if (syncs_) exchange();
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

// Working numbers that change by themselves would count as loaded ones and become the masters'.
void ToyZero1::sync_params(const Optimizer& optimizer) {
  Optimizer handle = optimizer;
  for (const auto& [name, tensor] : optimizer.parameters()) {
    gather_ranges(tensor, group());
    if (const Tensor master = optimizer.master(name); master.defined())
      handle.set_master(name, master);
  }
}

Tensor ToyZero1::kept_for(const std::string& name) const {
  for (const Sharded& one : all_)
    if (name != one.parameter.name && lies_in(name, one.parameter.name))
      return one.parameter.tensor;
  return {};
}

void ToyZero1::join(StateDict& state) const {
  for (auto& [name, tensor] : state)
    if (const Tensor parameter = kept_for(name); parameter.defined()) {
      const Tensor whole = empty(parameter.shape(), {tensor.dtype(), tensor.device()});
      own_window(whole, group()).copy_(tensor);
      gather_ranges(whole, group());
      tensor = whole;
    }
}

void ToyZero1::split(StateDict& state) const {
  for (auto& [name, tensor] : state)
    if (kept_for(name).defined()) tensor = own_window(tensor, group()).clone();
}

}  // namespace booster::toys
