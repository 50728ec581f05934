// Plugin: spreads a model over ranks. The interface between a training step and a distribution
// strategy.
//
// The base class is `single`: one process, nothing to do. A plugin does not depend on the
// training's precision. One object serves the models and optimizers of one boost call, and one
// thread.
//
// Built-in plugins: plugins/built_in.h. A plugin of your own: docs/add-a-plugin.md.
#pragma once

#include "core/data/loader.h"
#include "core/nn/module.h"
#include "core/optim/optimizer.h"
#include "parallel/mesh.h"
#include "platform/warn.h"

#include <functional>
#include <memory>
#include <vector>

namespace booster {

// A pass that begins.
struct PassStart {
  Pass pass = Pass::forward;
  // A backward pass with `sync` leaves the global gradients. Without it, gradients stay local to
  // this rank (no_sync) until a pass with `sync`, or sync_grads().
  bool sync = true;
  int first_link = 0;  // forward pass: the model's first link that runs (core/nn/module.h)
  bool trains = true;  // forward pass: some part of the model is in training mode
};

// A pass that a plugin began. Its destructor undoes the plugin's settings for this thread, such as
// a random stream, also if the pass throws. Scopes nest: a pipeline's forward passes run inside of
// its backward pass. For one thread.
class PassScope {
 public:
  struct Part {
    std::function<void()> end = {};      // completes the pass; may exchange messages, and throw
    std::function<void()> abandon = {};  // if the pass or an `end` threw; local to this rank
    std::function<void()> restore = {};  // restores this thread's state, in either case
  };

  PassScope() = default;
  PassScope(Part part) { add(std::move(part)); }
  PassScope(PassScope&&) noexcept = default;
  PassScope& operator=(PassScope&&) = delete;
  ~PassScope();
  // Adds a part, or all parts of another scope. Added parts are inside of the existing ones, so
  // they end first.
  void add(Part part) { parts_.push_back(std::move(part)); }
  void add(PassScope inner);
  // Completes a pass that has run to its end. Not called if the pass threw.
  void end();

 private:
  void undo_last(bool has_ended);

  std::vector<Part> parts_;
};

// The work on one batch as functions. A plugin chooses their order without knowing the precision.
// Where a model has one input and one output, these are Tensors of one tensor without a name.
struct MicroStep {
  // Runs the model; on the tape.
  std::function<Tensors(const Tensors& input)> forward;
  // Runs links [first, last) of the model (core/nn/module.h) on the result of link first - 1; on
  // the tape. Values between links have the strategy's compute dtype.
  std::function<Tensors(const Tensors& input, int first, int last)> forward_links;
  // Returns the mean loss over the batch; on the tape.
  std::function<Tensor(const Tensors& output, const Tensors& target)> loss;
  // Returns the tensor that backward starts from: the loss, scaled by the strategy.
  std::function<Tensor(const Tensor& loss)> scale;
  // Some part of the model is in training mode. It may drop elements and change its buffers.
  bool trains = true;
  // A training call without gradients, outside of no_sync: no step will share the buffers that it
  // changes.
  bool moves_buffers_alone = false;
};

// Rank 0 prints its notes: when models are boosted, and after each step.
class Plugin : public NoteTaker {
 public:
  virtual ~Plugin() = default;
  virtual const char* name() const { return "single"; }
  // Returns the ranks that take part, along named axes; here a single one.
  virtual Mesh mesh() const { return {}; }
  Layout layout() const;
  Group group() const { return mesh().world(); }

  // --- once, when models and optimizers are boosted; all ranks call it
  // Runs before the strategy casts parameters and makes masters. Splits layers, cuts stages and
  // sends rank 0's weights to all. Sets what this rank updates (Optimizer::own) and how ranks join
  // their norms (Optimizer::share_norms).
  virtual void shard(const Model&, const Optimizers&) {}
  // Runs after the strategy, when parameters have their final dtype. Sets up gradient buckets and
  // hooks.
  virtual void prepare(const Model&, const Optimizers&) {}
  // Returns a loader of this rank's share of a dataset.
  virtual DataLoader prepare_dataloader(std::shared_ptr<const Dataset> dataset,
                                        DataLoaderOptions options) const {
    return DataLoader(std::move(dataset), std::move(options));
  }

  // --- each pass, in any order and number
  // Begins a forward or a backward pass. The scope ends it.
  virtual PassScope begin(const PassStart&) { return {}; }
  // Runs one call of the boosted model. `step` has only its forward functions. Pipelines pass the
  // batch from stage to stage, and give every rank the output.
  virtual Tensors forward(const Tensors& input, const MicroStep& step) {
    return step.forward(input);
  }
  // Runs forward and backward of one batch, while a backward pass is open. Pipelines cut it
  // into micro-batches. Returns the loss, off the tape.
  virtual Tensor run(const Tensors& input, const Tensors& target, const MicroStep& step);
  // Replaces each of `numbers` (f32 on the device) by its maximum over these ranks.
  virtual void agree(Tensor& /*numbers*/, Among) {}

  // --- the step of one optimizer, in this order
  // Exchanges the optimizer's gradients that are still local to this rank. Throws if a gradient is
  // missing.
  virtual void sync_grads(const Optimizer&) {}
  // Makes parameters equal after the update by these optimizers: ranks that updated parts exchange
  // them. Replicas also get rank 0's buffers, which checkpoints hold. Without an optimizer it
  // shares only the buffers, for a program that calls it outside of passes.
  virtual void sync_params(const Optimizers& /*stepped*/) {}

  // --- outside of passes; all ranks call them
  // Makes the values of whole parameters available to all code (booster/training/boosted.h), until
  // the same number of calls with `false`. Does nothing if ranks keep whole parameters.
  virtual void hold_whole(bool /*whole*/) {}

  // --- checkpoints; all ranks call them. Tensors have the names that a single process gives them:
  // of the model ("fc1.weight"), of an optimizer ("fc1.weight.exp_avg" with the parameter's shape;
  // "fc1.weight.steps", one i64; several optimizers have the models' names) and of a strategy
  // ("fc1.fp8.input.scale"). Turns any tensors of this rank into whole ones, at least on rank 0.
  virtual void join(StateDict& /*state*/) const {}
  // Turns whole tensors into the tensors of this rank.
  virtual void split(StateDict& /*state*/) const {}

 protected:
  int zero_stage_ = 0;  // for layout(): the state that ranks along data shard (parallel/mesh.h)
};

// Makes a plugin for each model that is boosted, always with the same options.
using PluginMaker = std::function<std::unique_ptr<Plugin>()>;

}  // namespace booster
