// StageParts: which stages of a pipeline have the numbers of which tensors, and how a state is put
// together from them. For one thread.
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
  // A tensor that several stages have, and which, in ascending order.
  struct Shared {
    Tensor tensor;
    std::vector<int> stages;
  };

  StageParts() = default;
  // Takes away the numbers of what only other stages use: those tensors become empty, of shape
  // (0, ...), and an optimizer must not have kept anything for them. Parameters of optimizers that
  // are not the model's (a loss's) stay on all stages. Piece k of `cut` is on stage
  // k % group.size(). Error if a tensor of the model is used by no link.
  StageParts(const Model& model, const Optimizers& optimizers, const StageCut& cut,
             const Group& group);

  // The stages that have the numbers of this tensor of the model or an optimizer, ascending.
  const std::vector<int>& stages_of(const Tensor& tensor) const;
  bool knows(const Tensor& tensor) const { return stages_.contains(tensor.body()); }
  // In the same order on all stages.
  const std::vector<Shared>& shared() const { return shared_; }

  // As of Plugin: whole tensors by name on stage 0, where each is the first one's that has it. A
  // name that is no tensor's goes by the tensor or the module that it lies in, else stage 0 has it.
  void join(StateDict& state) const;
  void split(StateDict& state) const;

 private:
  bool is_here(const std::vector<int>& stages) const;
  // Of the tensor that a state is of ("fc1.weight.exp_avg"); null: of none.
  const std::vector<int>* stages_of_tensor(const std::string& name) const;
  // Of a tensor of the module that a state is of ("fc1.fp8.input.scale"); null: of none.
  const std::vector<int>* stages_of_module(const std::string& name) const;

  Group group_;
  std::unordered_map<const TensorBody*, std::vector<int>> stages_;
  std::map<std::string, std::vector<int>> by_name_;
  std::vector<Shared> shared_;
};

}  // namespace booster
