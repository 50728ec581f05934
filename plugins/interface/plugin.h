// Plugin: how a model is spread over ranks. The seam between a training step and a strategy of
// distribution.
//
// The base class is `single`: one process, nothing to do. A plugin never asks in what numbers the
// model trains. One object serves what was boosted in one call, and one thread.
#pragma once

#include "core/data/loader.h"
#include "core/nn/module.h"
#include "core/optim/optimizer.h"
#include "parallel/layout.h"
#include "parallel/mesh.h"
#include "platform/note_taker.h"

#include <functional>
#include <memory>

namespace booster {

// The work on one batch as functions, so that a plugin can order it without knowing the numbers.
struct MicroStep {
  // The model; on the tape.
  std::function<Tensor(const Tensor& input)> forward;
  // Links [first, last) of the model (core/nn/module.h), on what link first - 1 gave; on the tape.
  // What one link gives another is in whatever numbers the strategy computes.
  std::function<Tensor(const Tensor& input, int first, int last)> forward_links;
  // The mean loss over the batch; on the tape.
  std::function<Tensor(const Tensor& output, const Tensor& target)> loss;
  // What backward starts from: the loss, scaled as the strategy wants.
  std::function<Tensor(const Tensor& loss)> scale;
  // Some part of the model is in training mode: it may drop elements, and move its buffers.
  bool trains = true;
  // The call trains without gradients, outside of no_sync: no step will share what it moves.
  bool moves_buffers_alone = false;
};

// Rank 0 prints what it notes: when models are boosted, and after each step.
class Plugin : public NoteTaker {
 public:
  virtual ~Plugin() = default;
  virtual const char* name() const { return "single"; }
  // The ranks that take part, along named axes; one alone here.
  virtual Mesh mesh() const { return {}; }
  virtual Layout layout() const { return mesh().layout(); }
  Group group() const { return mesh().world(); }

  // --- once, when models and optimizers are boosted; all ranks call it
  // Before the strategy casts parameters and makes masters: splits layers, cuts stages, sends
  // rank 0's weights to all, and says what this rank updates (Optimizer::own) and how ranks join
  // their norms (Optimizer::share_norms).
  virtual void shard(const Model&, const Optimizers&) {}
  // After it: parameters have their final dtype. Gradient buckets, hooks.
  virtual void prepare(const Model&, const Optimizers&) {}
  // This rank's share of a dataset.
  virtual DataLoader prepare_dataloader(std::shared_ptr<const Dataset> dataset,
                                        DataLoaderOptions options) const {
    return DataLoader(std::move(dataset), std::move(options));
  }

  // --- each pass, in any order and number
  // With `sync` the gradients of a backward pass are the global ones when end() returns; without,
  // they stay this rank's own (no_sync) until a pass with it, or sync_grads().
  virtual void begin(Pass, bool /*sync*/) {}
  virtual void end(Pass) {}
  // One call of the boosted model. `step` has its forward functions alone. Pipelines pass the batch
  // on from stage to stage, and give every rank the output.
  virtual Tensor forward(const Tensor& input, const MicroStep& step) { return step.forward(input); }
  // Forward and backward of one batch, between begin(backward) and end(backward). Pipelines cut it
  // into microbatches. Returns the loss, off the tape.
  virtual Tensor run(const Tensor& input, const Tensor& target, const MicroStep& step);
  // Makes numbers (f32 on the device) the largest of each among these ranks.
  virtual void agree(Tensor& /*numbers*/, Among) {}

  // --- the step of one optimizer, in this order
  // Exchanges what is still this rank's own of its gradients. Error if a gradient is missing.
  virtual void sync_grads(const Optimizer&) {}
  // After the update, where ranks update parts of the parameters.
  virtual void sync_params(const Optimizer&) {}

  // --- outside of passes; all ranks call them
  // Gives all ranks of a model's copies rank 0's buffers, which are those that checkpoints hold.
  virtual void share_buffers() {}
  // From now on, until as many calls with `false` came, the numbers of whole parameters are there
  // for anybody (booster/training/boosted.h). Where ranks keep whole ones they always are.
  virtual void hold_whole(bool /*whole*/) {}

  // --- checkpoints; all ranks call them. Tensors go by the names that one process gives them: of
  // the model ("fc1.weight"), of an optimizer ("fc1.weight.exp_avg" with the parameter's shape;
  // "fc1.weight.steps", one i64) and of a strategy ("fc1.fp8.input.scale").
  // From what this rank holds to whole tensors, on rank 0 at least; any number of them at once.
  virtual void join(StateDict& /*state*/) const {}
  // From whole tensors to what this rank holds.
  virtual void split(StateDict& /*state*/) const {}
};

}  // namespace booster
