#include "plugins/pipeline/tied_gradients.h"

#include "core/autograd/leaf_gradients.h"
#include "core/autograd/tape.h"

#include <algorithm>
#include <utility>

namespace booster {

// Makes groups in the same order on all stages, so that no stage waits for a group that another
// makes later.
TiedGradients::TiedGradients(const StageParts& parts, const Group& group) {
  std::map<std::vector<int>, Group> groups;
  for (const auto& [tensor, stages] : parts.shared()) {
    if (!tensor.is_leaf() || std::ranges::find(stages, group.rank()) == stages.end()) continue;
    if (groups.count(stages) == 0) groups.emplace(stages, group.subgroup(stages));
    all_.push_back({tensor, groups.at(stages), {}, {}});
  }
}

// Copies the gradient: its memory may be a bucket's, which the pass overwrites first.
void TiedGradients::begin() {
  for (Tied& tied : all_) {
    tied.gradient = tied.parameter.grad();
    tied.numbers = tied.gradient.defined() ? untracked::clone(tied.gradient) : Tensor();
    clear_grad(tied.parameter);
  }
}

void TiedGradients::end() {
  const NoGradGuard no_grad;
  for (Tied& tied : all_) {
    const Tensor& parameter = tied.parameter;
    const Tensor before = std::exchange(tied.gradient, {}),
                 numbers = std::exchange(tied.numbers, {});
    std::vector<int64_t> reached = {parameter.grad().defined()};
    tied.holders.all_reduce(reached, CollectiveOp::max);
    if (reached[0] == 0) {
      parameter.set_grad(before);
      continue;
    }
    // A pass of the tape stores it where the parameter's gradient belongs.
    if (!parameter.grad().defined()) backward(parameter, {.grad = zeros_like(parameter)});
    Tensor grad = parameter.grad();
    if (!grad.is_contiguous()) parameter.set_grad(grad = untracked::contiguous(grad));
    tied.holders.all_reduce(grad);
    if (numbers.defined()) grad.add_(numbers);
  }
}

}  // namespace booster
