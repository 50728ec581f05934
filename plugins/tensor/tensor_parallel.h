// TensorParallel: layers of a model cut over the ranks of a tensor group by a plan.
//
// Ranks of the group see the same batch, and hold the same numbers in what is not cut: gradients of
// those are the same bits on all of them, without a message, unless they work on parts (style
// shared). An optimizer sees the parts.
#pragma once

#include "core/autograd/layer_split.h"
#include "core/nn/module.h"
#include "parallel/groups/group.h"
#include "plugins/parameters/rank_parts.h"
#include "plugins/tensor/tensor_plan.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace booster {

// How a tensor is cut: along `dim`, in `groups` pieces one behind the other, each over all ranks.
struct TensorCut {
  Shape whole;
  int dim = 0;
  int64_t groups = 1;

  // Of each of the groups.
  RankParts parts(int ranks) const { return {whole[dim] / groups, ranks}; }
  Shape part_shape(int rank, int ranks) const;
  // The whole's window that is the rank's part of group i.
  Tensor window(const Tensor& whole, int64_t i, int rank, int ranks) const;
  // A rank's part, in memory of its own.
  Tensor part_of(const Tensor& whole, int rank, int ranks) const;
  void put_part(const Tensor& whole, const Tensor& part, int rank, int ranks) const;
};

class TensorParallel {
 public:
  // With `late_gather`, training gathers features only where something reads all of them.
  explicit TensorParallel(Group group, bool late_gather = false)
      : group_(std::move(group)), gathered_(late_gather ? LayerSplit::Result::spread
                                                        : LayerSplit::Result::whole) {}

  // Cuts the model's layers by the plan; `make` says how their ranks exchange. Parameters become
  // this rank's parts; all ranks hold the same whole ones before. Error for a pattern without a
  // module, a layer that cannot be cut like this, and sizes that do not divide among the ranks,
  // with those that would.
  using SplitMaker = std::function<std::shared_ptr<const LayerSplit>(
      const std::string& layer, LayerSplit::Result result, int64_t cut)>;
  void cut(const Model& model, const TensorPlan& plan, const SplitMaker& make);

  const Group& group() const { return group_; }
  // Whether a parameter of the model is a part.
  bool is_cut(const Tensor& parameter) const;
  // Whether the ranks sum their gradients of it, as its style is shared.
  bool is_shared(const Tensor& parameter) const;

  // Checkpoints: as Plugin::join and split, within the group.
  void join(StateDict& state) const;
  void split(StateDict& state) const;

 private:
  struct CutTensor {
    Tensor tensor;
    TensorCut cut;
  };
  void share(const Parameters& parameters);
  void cut_tensor(const Tensor& tensor, const TensorCut& cut);
  // How a parameter, or what an optimizer keeps for one, is cut; null: not at all.
  const TensorCut* cut_of(const NamedTensor& held, bool is_whole) const;
  Tensor joined(const Tensor& part, const TensorCut& cut) const;

  Group group_;
  LayerSplit::Result gathered_;
  std::vector<CutTensor> cuts_;
  Parameters shared_;
  std::map<std::string, TensorCut> by_name_;
};

}  // namespace booster
