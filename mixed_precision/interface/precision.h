// Precision: a precision strategy, the interface between a training step and a model's dtypes.
//
// The base class is fp32: every method does nothing or passes its argument through. A strategy
// overrides what it changes. A strategy does not depend on how the model is distributed: `inspect`
// gives a local verdict, the plugin makes it global, and `update` reads the agreed verdict. One
// object serves what one call boosted, usually one optimizer, and one thread. The calls may come in
// any order that docs/training-step.md allows.
#pragma once

#include "core/autograd/op_policy.h"
#include "core/nn/module.h"
#include "core/optim/optimizer.h"
#include "parallel/mesh.h"
#include "platform/warn.h"

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace booster {

// A strategy's verdict on a layout (how a model is distributed).
struct Interaction {
  bool supported = true;
  std::string reason = {};   // why not
  std::string instead = {};  // what to use
};

// The result of checking the gradients. Each tensor is one f32 on the device; undefined if the
// strategy has none.
struct Verdict {
  Tensor found_inf;      // not 0: a gradient was not finite, the step must do nothing
  Tensor inverse_scale;  // the factor by which the step must still multiply gradients
  Tensor scale;          // this step's loss scale, for reports
};

// A strategy's values for a checkpoint, by name.
using PrecisionState = std::map<std::string, double>;

// Values that ranks combine by maximum: f32 on the device; undefined: none.
struct SharedNumbers {
  Tensor numbers = {};
  Among among = Among::everybody;
};

// A program's options for one loss.
struct ScaleLossOptions {
  int loss_id = 0;                    // index of the strategy's scaler (num_losses of fp16_apex)
  bool delay_unscale = false;         // keep gradients scaled: another loss will unscale them
  bool delay_overflow_check = false;  // neither skip nor update the scale this time
};

// Rank 0 prints its notes: after prepare, after each step and at the end.
class Precision : public NoteTaker {
 public:
  virtual ~Precision() = default;
  virtual const char* name() const { return "fp32"; }
  virtual Interaction interaction(const Layout&) const { return {}; }

  // Called before a model is boosted, while it is unchanged. Throws if the options name parts that
  // the model lacks.
  virtual void check_fits(const Model&) const {}
  // Called once, when model and optimizers are boosted: casts parameters, makes masters.
  virtual void prepare(const Model&, const Optimizers&) {}

  // Returns the op policy during forward and loss; null if there is none.
  virtual const OpPolicy* policy(Device) const { return nullptr; }
  // Convert the model's input, and its output for the caller; both differentiable.
  virtual Tensor cast_input(const Tensor& x) const { return x; }
  virtual Tensor cast_output(const Tensor& y) const { return y; }

  // --- passes, any number of them before a step
  // Begins the backward pass of one loss, or of many micro-batches, with gradients for these
  // optimizers. Also called on ranks that have no loss themselves. Throws if the strategy cannot do
  // what `options` require.
  virtual void begin_loss(const ScaleLossOptions& options, const Optimizers& optimizers);
  // Called when the pass had gradients for an optimizer that begin_loss did not name.
  virtual void reached(const Optimizer&) {}
  // Returns true if the end of a backward pass unscales each loss; false if the step does.
  virtual bool unscales_each_loss() const { return false; }
  // Returns the loss from which the pass's backward starts.
  virtual Tensor scale(const Tensor& loss) { return loss; }
  // Ends a forward pass on the tape, or a backward pass. Returns values that ranks must share, such
  // as each layer's largest magnitude. The ranks' result is written in-place; agreed() follows.
  virtual SharedNumbers end(Pass) { return {}; }
  virtual void agreed(Pass) {}

  // --- gradients of one optimizer
  // Makes the optimizer's gradients in memory true gradients (for clipping and inspection).
  // Gradients of 16-bit parameters become f32; otherwise they would lose small values.
  virtual void unscale(Optimizer&) {}
  // Returns the factor that makes the optimizer's gradients in memory true: f32 on the device;
  // undefined stands for 1.
  virtual Tensor gradient_factor(const Optimizer&) const { return {}; }
  // Returns the factor that makes the norm of the gradients in memory the true norm, so that
  // clipping by norm needs no writing pass. Default: gradient_factor; if that is undefined,
  // unscales first.
  virtual Tensor norm_factor(Optimizer& optimizer);
  // Returns the local verdict before a step.
  virtual Verdict inspect(Optimizer&) { return {}; }
  // Called when the optimizer's gradients were dropped.
  virtual void abandon(const Optimizer&) {}
  // Called once all optimizers of the losses have stepped, with the verdict that all ranks agreed
  // on: an overflow in one optimizer's gradients counts for all.
  virtual void update(const Verdict&) {}

  // Returns the factor of the next loss; 1 without a loss scale. Throws for an unknown loss_id.
  // Waits for the device.
  virtual double loss_scale(int loss_id) const;
  // Returns true if an overflow reduces the loss scale; skipped steps may then be the search for
  // one.
  virtual bool seeks_scale() const { return false; }
  // Returns what its scaler refused so far and why, as text for users; "" if nothing. Waits for the
  // device.
  virtual std::string refusal() const { return ""; }

  // Returns the dtype of the model's floating tensors in checkpoints; nothing if unchanged.
  virtual std::optional<DType> saved_dtype() const { return {}; }

  virtual PrecisionState state() const { return {}; }
  // Loads all values or none; throws if one is missing.
  virtual void load(const PrecisionState&) {}
  // Returns tensors for a checkpoint, by name. They share memory with the strategy: loading writes
  // there. A layer's tensors start with its name, by which plugins assign them to ranks
  // (Plugin::join).
  virtual StateDict state_tensors() const { return {}; }
  // Returns true if state_tensors differ between ranks. Checkpoints then hold every rank's tensors,
  // and plugins do not join them.
  virtual bool state_differs_by_rank() const { return false; }

  // Adds notes on device events that the host has not read yet. Waits for the device.
  virtual void finish_notes() {}

 private:
  void check_loss_id(int loss_id) const;
};

using FP32Precision = Precision;

}  // namespace booster
