#include "tests/plugins/toys/pair.h"

namespace booster::toys {

namespace {

// Passes x to all ranks' parts of a layer; backward sums the parts' gradients.
Tensor to_parts(const Tensor& x, const Group& group) {
  return record(x.detach(), "to_parts", {x}, [group](const Tensor& g, Gradients& d) {
    d[0] = g.clone();
    group.all_reduce(d[0]);
  });
}

// Returns the sum of all ranks' parts; its gradient is the gradient of every part.
Tensor sum_of_parts(const Tensor& x, const Group& group) {
  const Tensor y = x.clone();
  group.all_reduce(y);
  return record(y, "sum_of_parts", {x}, [](const Tensor& g, Gradients& d) { d[0] = g; });
}

}  // namespace

Tensor part_of(const Tensor& whole, int dim, const Group& group) {
  const int64_t size = whole.size(dim) / group.size();
  return untracked::narrow(whole.detach(), dim, group.rank() * size, size).clone();
}

Tensor whole_of(const Tensor& part, int dim, const Group& group) {
  Shape stacked = part.shape();
  stacked[0] *= group.size();
  const Tensor all = empty(stacked, {part.dtype(), part.device()});
  group.all_gather(all, part.detach());
  return dim == 0 ? all : cat(split(all, part.size(0)), dim).detach();
}

Tensor Pair::forward(const Tensor& x) {
  if (!group_) return down(gelu(up(x), GeluForm::erf));
  const Tensor part = linear(gelu(up(to_parts(x, *group_)), GeluForm::erf), down.weight);
  return sum_of_parts(part, *group_) + down.bias;
}

void Pair::cut(const Group& group) {
  check(up.weight.size(0) % group.size() == 0, "Pair: {} hidden features on {} ranks",
        up.weight.size(0), group.size());
  group_ = group;
  replace_(up.weight, part_of(up.weight, 0, group));
  replace_(up.bias, part_of(up.bias, 0, group));
  replace_(down.weight, part_of(down.weight, 1, group));
}

}  // namespace booster::toys
