#include "core/optim/algorithms/flat_parameters.h"

#include "core/autograd/functions.h"

namespace booster {

FlatParameters::FlatParameters(std::vector<OptimizedParameter>& parameters, size_t first_rows)
    : parameters_(parameters), first_rows_(first_rows) {
  for (OptimizedParameter& p : parameters_) p.refresh_master();
}

Tensor FlatParameters::joined(const std::function<Tensor(const OptimizedParameter&)>& of,
                              bool rows) const {
  std::vector<Tensor> all;
  for (const OptimizedParameter& p : parameters_) {
    const Tensor x = cast(of(p).to(p.home()), parameters_[0].state_dtype());
    all.push_back(rows ? x : reshape(x, {x.numel()}));
  }
  return cat(all, rows ? 1 : 0);
}

void FlatParameters::each(
    const Tensor& all, bool rows,
    const std::function<void(OptimizedParameter&, const Tensor& piece)>& take) {
  int64_t begin = 0;
  for (OptimizedParameter& p : parameters_) {
    take(p, contiguous(narrow(all, rows ? 1 : 0, begin, p.tensor.numel())));
    begin += p.tensor.numel();
  }
}

Tensor FlatParameters::gradient() const {
  return joined(
      [](const OptimizedParameter& p) {
        const Tensor grad = p.gradient();
        return grad.defined() ? grad : zeros(p.tensor.shape(), {p.state_dtype(), p.home()});
      },
      false);
}

Tensor FlatParameters::values() const {
  return joined([](const OptimizedParameter& p) { return p.value(); }, false);
}

void FlatParameters::set_values(const Tensor& all) {
  each(all, false, [](OptimizedParameter& p, const Tensor& piece) {
    Tensor value = p.value();
    value.copy_(reshape(piece, value.shape()));
    if (p.master.defined()) p.working().copy_(p.master);
    p.tensor.bump_version();
    p.mark_in_step();
  });
}

Tensor FlatParameters::state(size_t i) const {
  if (!parameters_[0].state[i].defined()) return {};
  return joined([i](const OptimizedParameter& p) { return p.state[i]; }, i >= first_rows_);
}

void FlatParameters::set_state(size_t i, const Tensor& all) {
  const MemoryScope memory(MemoryTag::optimizer_state);
  const bool rows = i >= first_rows_;
  each(all, rows, [=](OptimizedParameter& p, const Tensor& piece) {
    p.state[i] = untracked::clone(rows ? piece : reshape(piece, p.tensor.shape()));
  });
}

FlatParameters::States FlatParameters::states() const {
  States all;
  for (const OptimizedParameter& p : parameters_) all.push_back(p.state);
  return all;
}

void FlatParameters::restore(const States& states) {
  for (size_t i = 0; i < states.size(); ++i) parameters_[i].state = states[i];
}

void FlatParameters::set_iterations(int64_t count) {
  for (OptimizedParameter& p : parameters_) p.steps.set(count, p.home());
}

}  // namespace booster
