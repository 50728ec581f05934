#include "core/autograd/composed_gradients.h"

#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"

namespace booster {
namespace {

// Returns a result on the tape with x's values, for an input whose gradient is wanted.
Tensor alias_of(const Tensor& x) {
  if (!x.defined()) return x;
  return (x.requires_grad() ? x : x.detach().requires_grad_()) * 1.0;
}

}  // namespace

void differentiate_composed(const std::vector<Tensor>& inputs, std::span<const Tensor> g,
                            Gradients& d, const ComposedFunction& f) {
  const PolicyScope inside(nullptr);
  std::vector<Tensor> aliases, wanted, roots, grads;
  std::vector<int> places;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const bool is_wanted = d.wanted(static_cast<int>(i));
    aliases.push_back(is_wanted ? alias_of(inputs[i]) : inputs[i]);
    if (!is_wanted) continue;
    wanted.push_back(aliases.back());
    places.push_back(static_cast<int>(i));
  }
  const std::vector<Tensor> results = f(aliases);
  for (size_t i = 0; i < results.size(); ++i) {
    if (!g[i].defined()) continue;
    roots.push_back(flatten(results[i]));
    grads.push_back(flatten(cast(g[i], results[i].dtype())));
  }
  const std::vector<Tensor> found =
      gradients(cat(roots), wanted, {.grad = cat(grads), .create_graph = true});
  for (size_t i = 0; i < found.size(); ++i) d[places[i]] = found[i];
}

InputForm::InputForm(const Tensor& x) {
  if (!x.defined()) return;
  shape_ = x.shape();
  dtype_ = x.dtype();
}

Tensor InputForm::zero(Device device) const {
  return shape_ ? zeros(*shape_, {dtype_, device}) : Tensor();
}

}  // namespace booster
