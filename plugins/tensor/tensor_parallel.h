// TensorParallel: shards layers of a model over the ranks of a tensor group by a plan.
//
// Ranks of the group see the same batch and hold the same values in unsharded parameters. Their
// gradients are bit-identical on all ranks without a message, unless they work on parts (style
// shared). An optimizer sees the parts.
#pragma once

#include "core/autograd/layer_split.h"
#include "core/nn/module_traits.h"
#include "parallel/groups/group.h"
#include "plugins/parameters/rank_parts.h"

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace booster {

// Describes how a tensor is sharded: along `dim`, in `groups` consecutive pieces, each over all
// ranks.
struct TensorCut {
  Shape whole;
  int dim = 0;
  int64_t groups = 1;

  // Returns the parts of one group.
  RankParts parts(int ranks) const { return {whole[dim] / groups, ranks}; }
  Shape part_shape(int rank, int ranks) const;
  // Returns the window of the whole that is the rank's part of group i.
  Tensor window(const Tensor& whole, int64_t i, int rank, int ranks) const;
  // Returns a rank's part in its own memory.
  Tensor part_of(const Tensor& whole, int rank, int ranks) const;
  void put_part(const Tensor& whole, const Tensor& part, int rank, int ranks) const;
};

class TensorParallel {
 public:
  // With `late_gather`, training gathers features only when an op reads all of them.
  explicit TensorParallel(Group group, bool late_gather = false)
      : group_(std::move(group)), gathered_(late_gather ? LayerSplit::Result::spread
                                                        : LayerSplit::Result::whole) {}

  // Shards the model's layers by the plan; `make` defines the ranks' exchanges. Parameters, equal
  // on all ranks before, become this rank's parts. Throws for a pattern without a module, and for a
  // layer that cannot be sharded this way. Also throws for sizes that the ranks do not divide, and
  // lists valid ones.
  using SplitMaker = std::function<std::shared_ptr<const LayerSplit>(
      const std::string& layer, LayerSplit::Result result, int64_t cut)>;
  void cut(const Model& model, const TensorPlan& plan, const SplitMaker& make);

  const Group& group() const { return group_; }
  // Returns true if a parameter of the model is a part.
  bool is_cut(const Tensor& parameter) const;
  // Returns true if the ranks sum their gradients of the parameter because its style is shared.
  bool is_shared(const Tensor& parameter) const;

  // Join and split within the group, as in Plugin, for checkpoints.
  void join(StateDict& state) const;
  void split(StateDict& state) const;

 private:
  struct CutTensor {
    Tensor tensor;
    TensorCut cut;
  };
  void share(const Parameters& parameters);
  void cut_tensor(const Tensor& tensor, const TensorCut& cut);
  // Returns the cut of a parameter or its optimizer state; null if it is whole.
  const TensorCut* cut_of(const NamedTensor& held, bool is_whole) const;
  Tensor joined(const Tensor& part, const TensorCut& cut) const;

  Group group_;
  LayerSplit::Result gathered_;
  std::vector<CutTensor> cuts_;
  Parameters shared_;
  std::map<std::string, TensorCut> by_name_;
};

}  // namespace booster
