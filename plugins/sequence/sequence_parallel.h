// SequenceParallel: each rank runs a transformer's blocks on some of the tokens.
//
// In a region of consecutive blocks, each rank has only its own tokens. After the last block it has
// all tokens again. What ranks exchange within the region depends on the mode:
//   split_gather  the ranks of the tensor group. Partitioned layers gather all tokens and leave
//                 each rank its tokens of the sum. The work between them (normalisation, dropout,
//                 the residual stream) is shared by tokens (Korthikanti et al., "Reducing
//                 activation recomputation in large transformer models", 2022).
//   all_to_all    ranks of an axis of their own; layers may be whole. Attention gets all tokens of
//                 some heads (Jacobs et al., "DeepSpeed Ulysses", 2023). Gradients of parameters
//                 are summed as in data parallelism.
//   ring_attn     as all_to_all, but attention gets the keys of one rank after the other
//                 (ring_attention.h), so the number of ranks need not divide the heads.
#pragma once

#include "core/nn/module_traits.h"
#include "parallel/mesh.h"
#include "plugins/tensor/rank_split.h"

#include <functional>
#include <memory>
#include <string>

namespace booster {

enum class SequenceMode : uint8_t { none, split_gather, all_to_all, ring_attn };
// Returns the mode of this name. Throws with the nearest name for any other.
SequenceMode sequence_mode_named(const std::string& name);

class SequenceParallel {
 public:
  SequenceParallel(SequenceMode mode, const Mesh& mesh);

  SequenceMode mode() const { return mode_; }
  // Chooses the blocks by a pattern of names; if it is empty, the blocks of the model's traits.
  // Throws if there are none, or if the model's token count is known and not divisible by the
  // ranks.
  void choose(const Model& model, const std::string& blocks);
  // Returns how the tensor group's ranks exchange the values of a layer of this name.
  std::shared_ptr<const LayerSplit> split_of(const std::string& layer, LayerSplit::Result result,
                                             int64_t cut) const;
  // Begins a pass at a link of the model (core/nn/module.h); a pipeline stage may begin within the
  // blocks. Returns the random stream there.
  uint64_t begin(Pass pass, int link);
  // Ends a pass. Throws if a module of the blocks seems to have counted this rank's tokens from 0.
  void end(Pass pass);
  // Adds the exchanges to the model, whose layers are already cut: around the blocks and, by the
  // plan, around attention. `is_cut` returns true for a parameter that is a part or whose gradient
  // is already summed. Throws for heads that the ranks do not divide. In split_gather, throws for a
  // parameter that modules inside and outside of the blocks share.
  void connect(const Model& model, const TensorPlan& plan,
               const std::function<bool(const Tensor&)>& is_cut);

 private:
  // Position of a forward pass. Backward may run blocks again, without the hooks at the region's
  // edges.
  enum class Phase : uint8_t { unknown, outside, inside };
  bool is_inside(const std::string& name) const;
  void find_links_inside(Module& model);
  // Lets modules of a program's own blocks query their tokens, and looks for position tables.
  void watch_positions(Module& model);
  void exchange_heads(Module& model, const TensorPlan& plan) const;
  void pass_keys_round(Module& model) const;
  // Sums gradients of parameters that each rank uses only for its own tokens.
  void sum_gradients(Module& model, const std::function<bool(const Tensor&)>& is_cut) const;
  // Throws for parameters that are also used outside of the blocks, where all ranks do the same
  // work. The sum would count that work several times.
  void refuse_uses_outside(Module& model) const;

  SequenceMode mode_;
  Group tensor_, ranks_;  // ranks_: the ranks that share the tokens
  SplitStreams outside_, inside_;
  std::vector<std::string> blocks_;
  bool position_free_ = false;      // ModuleTraits::position_free
  std::vector<bool> links_inside_;  // all links of the blocks except the first
  std::string table_;  // a block's buffer that may be a position table; "": none
  std::shared_ptr<Phase> phase_ = std::make_shared<Phase>(Phase::unknown);  // shared with the hooks
};

}  // namespace booster
