// SequenceParallel: the blocks of a transformer work on some of the tokens on each rank.
//
// A region of blocks, one after the other, gets this rank's tokens before its first block, and all
// tokens come back behind its last. What ranks exchange within depends on the mode:
//   split_gather  the ranks are those of the tensor group. Layers that are cut gather all tokens
//                 and leave some of the sum; what lies between them (normalisation, dropout, the
//                 residual stream) is done once, by parts (Korthikanti et al., "Reducing activation
//                 recomputation in large transformer models", 2022).
//   all_to_all    the ranks are an axis of their own, and layers may be whole. Attention gets all
//                 tokens of some heads (Jacobs et al., "DeepSpeed Ulysses", 2023). Gradients of
//                 parameters are summed like those of data parallelism.
//   ring_attn       as all_to_all, but attention gets the keys of one rank after the other
//                   (ring_attention.h), so that heads need not divide.
#pragma once

#include "core/nn/module.h"
#include "parallel/layout.h"
#include "parallel/mesh.h"
#include "plugins/tensor/rank_split.h"
#include "plugins/tensor/tensor_plan.h"

#include <functional>
#include <memory>
#include <string>

namespace booster {

enum class SequenceMode : uint8_t { none, split_gather, all_to_all, ring_attn };
// By these names. Error with the nearest name for any other.
SequenceMode sequence_mode_named(const std::string& name);

class SequenceParallel {
 public:
  SequenceParallel(SequenceMode mode, const Mesh& mesh);

  SequenceMode mode() const { return mode_; }
  // Chooses the blocks: by a pattern of names, or those of a model that comes with them. Error if
  // there are none, or if the model's number of tokens is known and does not divide.
  void choose(const Model& model, const std::string& blocks);
  // How the tensor group's ranks exchange what a layer of this name needs.
  std::shared_ptr<const LayerSplit> split_of(const std::string& layer, LayerSplit::Result result,
                                             int64_t cut) const;
  // A pass begins at a link of the model (core/nn/module.h): a stage of a pipeline may begin within
  // the blocks. The stream of random numbers there.
  uint64_t begin(Pass pass, int link);
  // Error if a module of the blocks seems to have counted this rank's tokens from 0.
  void end(Pass pass);
  // Puts the exchanges into the model, whose layers are cut already: around the blocks, and, by the
  // plan, around attention. `is_cut`: whether a parameter is a part, or its gradient is summed
  // already. Error for heads that do not divide, and for split_gather with a parameter that modules
  // on both sides of the blocks' edge hold.
  void connect(const Model& model, const TensorPlan& plan,
               const std::function<bool(const Tensor&)>& is_cut);

 private:
  // Where a forward pass is. Backward may run blocks again, without what tells their edge.
  enum class Phase : uint8_t { unknown, outside, inside };
  bool is_inside(const std::string& name) const;
  void find_links_inside(Module& model);
  // Lets modules of a program's own blocks ask which tokens they have, and looks for tables.
  void watch_positions(Module& model);
  void exchange_heads(Module& model, const TensorPlan& plan) const;
  void pass_keys_round(Module& model) const;
  // Parameters that each rank uses for its own tokens alone.
  void sum_gradients(Module& model, const std::function<bool(const Tensor&)>& is_cut) const;
  // Whose sum would count several times what all ranks do alike outside of the blocks.
  void refuse_uses_outside(Module& model) const;

  SequenceMode mode_;
  Group tensor_, ranks_;  // ranks_: those that share the tokens
  SplitStreams outside_, inside_;
  std::vector<std::string> blocks_;
  std::vector<bool> links_inside_;  // the blocks, from their beginning
  std::string table_;  // a buffer of a block that may hold numbers by position; "": none
  std::shared_ptr<Phase> phase_ = std::make_shared<Phase>(Phase::unknown);  // the hooks' as well
};

// The blocks of a model that has some: of Vision Transformers and GPT-2. Empty for any other.
std::string shipped_blocks(const Module& model);
// How many tokens its blocks get, whatever the batch; 0 where the input says it.
int64_t shipped_tokens(const Module& model);

}  // namespace booster
