// StageParts: knows which stages of a pipeline hold which tensors, and joins their states. For one
// thread.
#pragma once

#include "core/nn/module.h"
#include "core/optim/optimizer.h"
#include "parallel/groups/group.h"
#include "plugins/pipeline/stage_cut.h"

#include <map>
#include <string>
#include <unordered_map>
#include <vector>

namespace booster {

class StageParts {
 public:
  // A tensor that several stages have, and these stages in ascending order.
  struct Shared {
    Tensor tensor;
    std::vector<int> stages;
  };

  StageParts() = default;
  // Drops the values of tensors that only other stages use; they become empty, of shape (0, ...).
  // No optimizer may have state for them yet. Optimizers' parameters outside the model, such as a
  // loss's, stay on all stages. Piece k of `cut` is on stage k % group.size(). Throws if no link
  // uses a tensor of the model.
  StageParts(const Model& model, const Optimizers& optimizers, const StageCut& cut,
             const Group& group);

  // Returns the stages that have this tensor of the model or an optimizer, ascending.
  const std::vector<int>& stages_of(const Tensor& tensor) const;
  bool knows(const Tensor& tensor) const { return stages_.contains(tensor.body()); }
  // Returns tensors of several stages, in the same order on all stages.
  const std::vector<Shared>& shared() const { return shared_; }

  // Implements Plugin::join: joins whole tensors by name on stage 0, each from the first stage that
  // has it. A name that belongs to no tensor follows the tensor or module that contains it;
  // otherwise it belongs to stage 0.
  void join(StateDict& state) const;
  void split(StateDict& state) const;

 private:
  bool is_here(const std::vector<int>& stages) const;
  // Returns the stages of the tensor that a state belongs to ("fc1.weight.exp_avg"); null if there
  // is none.
  const std::vector<int>* stages_of_tensor(const std::string& name) const;
  // Returns the stages of a tensor of the module that a state belongs to ("fc1.fp8.input.scale");
  // null if there is none.
  const std::vector<int>* stages_of_module(const std::string& name) const;

  Group group_;
  std::unordered_map<const TensorBody*, std::vector<int>> stages_;
  std::map<std::string, std::vector<int>> by_name_;
  std::vector<Shared> shared_;
};

}  // namespace booster
