// Precision: in what numbers a model trains. The seam between a training step and a strategy.
//
// The base class is fp32: every method does nothing or passes its argument through, and a strategy
// overrides what it changes. A strategy never asks how the model is spread: `inspect` gives a local
// verdict, the plugin makes it global, and `update` reads the agreed one. One object serves what
// was boosted in one call, usually one optimizer, and one thread. The calls may come in any order
// that docs/training-step.md allows.
#pragma once

#include "core/autograd/op_policy.h"
#include "core/nn/module.h"
#include "core/optim/optimizer.h"
#include "parallel/layout.h"
#include "platform/note_taker.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace booster {

// What a strategy says of a way to spread a model.
struct Interaction {
  bool supported = true;
  std::string reason = {};   // why not
  std::string instead = {};  // what to use
};

// What a look at the gradients found. Tensors of one f32 on the device; undefined where the
// strategy has none.
struct Verdict {
  Tensor found_inf;      // not 0: a gradient was not finite, the step must do nothing
  Tensor inverse_scale;  // what the step must still multiply gradients by
  Tensor scale;          // loss scale of this step, for reports
};

// A strategy's numbers for a checkpoint, by name.
using PrecisionState = std::map<std::string, double>;

// Numbers of which ranks take the largest: f32 on the device; undefined: none.
struct SharedNumbers {
  Tensor numbers = {};
  Among among = Among::everybody;
};

// What a program says of a loss.
struct ScaleLossOptions {
  int loss_id = 0;                    // which of the strategy's scalers (num_losses of fp16_apex)
  bool delay_unscale = false;         // gradients stay scaled: another loss will unscale them
  bool delay_overflow_check = false;  // neither skips nor moves the scale this time
};

// Rank 0 prints what it notes: after prepare, after each step and in the end.
class Precision : public NoteTaker {
 public:
  virtual ~Precision() = default;
  virtual const char* name() const { return "fp32"; }
  virtual Interaction interaction(const Layout&) const { return {}; }

  // Before a model is boosted, and while it is as it was: error if the options name what it lacks.
  virtual void check_fits(const Model&) const {}
  // Once, when model and optimizers are boosted: casts parameters, makes masters.
  virtual void prepare(const Model&, const Optimizers&) {}

  // The op policy in force during forward and loss; null: none.
  virtual const OpPolicy* policy(Device) const { return nullptr; }
  // What the model gets for x, and what its caller gets for y; both differentiable.
  virtual Tensor cast_input(const Tensor& x) const { return x; }
  virtual Tensor cast_output(const Tensor& y) const { return y; }

  // --- passes, in any number before a step
  // The backward pass of a loss begins, or of many microbatches, whose gradients are for these
  // optimizers; also on ranks that have no loss themselves. Error if the strategy cannot do what
  // the program says of the loss.
  virtual void begin_loss(const ScaleLossOptions& options, const Optimizers& optimizers);
  // That pass had gradients for an optimizer that it was not begun for.
  virtual void reached(const Optimizer&) {}
  // True if each loss is unscaled when its backward pass ends, and not by the step.
  virtual bool unscales_each_loss() const { return false; }
  // loss -> what backward starts from; in that pass
  virtual Tensor scale(const Tensor& loss) { return loss; }
  // A forward pass on the tape, or a backward pass, has ended: numbers that ranks must share, such
  // as the largest magnitudes of each layer. They are written in place, and agreed() comes after.
  virtual SharedNumbers end(Pass) { return {}; }
  virtual void agreed(Pass) {}

  // --- gradients of one optimizer
  // Turns the optimizer's gradients into true gradients in memory (for clipping and inspection).
  // Those of 16-bit parameters become f32, or they would lose small numbers.
  virtual void unscale(Optimizer&) {}
  // What the optimizer's gradients in memory must still be multiplied by to be the true ones: f32
  // on the device; undefined: 1.
  virtual Tensor gradient_factor(const Optimizer&) const { return {}; }
  // What makes the norm of the gradients in memory that of the true ones, so that clipping by norm
  // costs no pass that writes. By default gradient_factor, or where there is none true gradients.
  virtual Tensor norm_factor(Optimizer& optimizer);
  // The local verdict before a step.
  virtual Verdict inspect(Optimizer&) { return {}; }
  // The optimizer's gradients were thrown away.
  virtual void abandon(const Optimizer&) {}
  // Once all optimizers that the losses were for have stepped, with the verdict that all ranks
  // agreed on: an overflow in the gradients of one is one of the whole.
  virtual void update(const Verdict&) {}

  // What the next loss is multiplied by; 1 without a loss scale. Error if there is no such loss_id.
  // Waits for the device.
  virtual double loss_scale(int loss_id) const;
  // True if an overflow makes the loss scale smaller: skipped steps may be the search for one.
  virtual bool seeks_scale() const { return false; }
  // What its scaler refused so far and why, for people; "" if nothing. Waits for the device.
  virtual std::string refusal() const { return ""; }

  // The dtype in which checkpoints hold the model's floating tensors; nothing: as they are.
  virtual std::optional<DType> saved_dtype() const { return {}; }

  virtual PrecisionState state() const { return {}; }
  // All or nothing; error if a number is missing.
  virtual void load(const PrecisionState&) {}
  // Tensors for a checkpoint, by name. They share memory with the strategy: loading writes there.
  // Those of a layer begin with its name, so that plugins know whose they are (Plugin::join).
  virtual StateDict state_tensors() const { return {}; }
  // True if each rank has its own numbers in them: checkpoints hold those of every rank then, and
  // plugins do not join them.
  virtual bool state_differs_by_rank() const { return false; }

  // Adds notes on what the device did and the host has not asked for yet. Waits for the device.
  virtual void finish_notes() {}

 private:
  void check_loss_id(int loss_id) const;
};

using FP32Precision = Precision;

}  // namespace booster
