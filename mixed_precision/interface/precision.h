// Precision: a precision strategy, the interface between a training step and a model's dtypes.
//
// The base class is fp32: every method does nothing or passes its argument through. A strategy
// overrides the methods that it needs. A strategy does not depend on how the model is distributed:
// `inspect` gives a local verdict, the plugin makes it global, and `update` reads the agreed
// verdict. One object serves the models and optimizers of one boost call, and one thread. The calls
// may come in any order that docs/training-step.md allows.
//
// Built-in strategies: mixed_precision/built_in.h. A strategy of your own: docs/add-a-strategy.md.
// One that scales the loss derives from ScaledPrecision (mixed_precision/scaling/loss_scaler.h).
#pragma once

#include "core/autograd/op_policy.h"
#include "core/nn/module.h"
#include "core/optim/optimizer.h"
#include "parallel/mesh.h"
#include "platform/warn.h"

#include <functional>
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

// A program's options for one loss.
struct ScaleLossOptions {
  int loss_id = 0;                    // index of the strategy's scaler (num_losses of fp16_apex)
  bool delay_unscale = false;         // keep gradients scaled: another loss will unscale them
  bool delay_overflow_check = false;  // neither skip nor update the scale this time
};

// Values that ranks combine by maximum: f32 on the device; undefined: none. The caller writes the
// ranks' result in-place and then calls `agreed`, also if there are no values.
struct SharedNumbers {
  Tensor numbers = {};
  Among among = Among::everybody;
  std::function<void()> agreed = {};
};

// A loss whose backward pass begins.
struct LossStart {
  ScaleLossOptions options = {};
  Optimizers optimizers = {};  // those that get its gradients
  bool stays_local = false;    // ranks do not exchange its gradients: no_sync among several ranks
};

// The backward pass of one loss, or of the micro-batches of a batch. It lives until the pass has
// ended or failed. A failed pass does not call `end`.
struct LossPass {
  // Returns the tensor that backward starts from. Called on ranks that have a loss. If empty,
  // backward starts from the loss.
  std::function<Tensor(const Tensor& loss)> scale = {};
  // Ends the pass. `unnamed`: optimizers that got gradients although LossStart did not name them.
  std::function<SharedNumbers(const Optimizers& unnamed)> end = {};
};

// A strategy's numbers for a checkpoint, by name.
using PrecisionNumbers = std::map<std::string, double>;

// The part of a strategy that checkpoints hold; empty in this base class.
class PrecisionState {
 public:
  virtual ~PrecisionState() = default;
  // Returns the numbers; their names never change.
  virtual PrecisionNumbers state() const { return {}; }
  // Loads all values or none. Throws if one is missing.
  virtual void load(const PrecisionNumbers&) {}
  // Returns tensors for a checkpoint, by name. They share memory with the strategy, so loading
  // writes there. A layer's tensors start with the layer's name; plugins use it to assign them to
  // ranks (Plugin::join).
  virtual StateDict state_tensors() const { return {}; }
  // Returns true if state_tensors differ between ranks. Checkpoints then hold every rank's tensors,
  // and plugins do not join them.
  virtual bool state_differs_by_rank() const { return false; }
  // Returns the dtype of the model's floating tensors in checkpoints; nothing if unchanged.
  virtual std::optional<DType> saved_dtype() const { return {}; }
};

// A strategy's reports to users. Rank 0 prints its notes (add_note) after prepare, after each step
// and at the end. These calls wait for the device. The base class has no scale and no notes.
class Reporter : public NoteTaker {
 public:
  virtual ~Reporter() = default;
  // Returns the name in configs, notes and errors.
  virtual const char* name() const = 0;
  // Returns the factor of the next loss; 1 without a loss scale. Throws for an unknown loss_id.
  virtual double loss_scale(int loss_id) const;
  // Returns true if an overflow reduces the loss scale. Skipped steps may then be part of the
  // search for a scale.
  virtual bool seeks_scale() const { return false; }
  // Returns the scale changes that its scaler has refused, with the reasons, as text for users; ""
  // if none.
  virtual std::string refusal() const { return ""; }
  // Adds notes on device events that the host has not read yet.
  virtual void finish_notes() {}

 protected:
  // Throws unless loss_id is 0.
  void check_only_loss(int loss_id) const;
};

class Precision : public PrecisionState, public Reporter {
 public:
  const char* name() const override { return "fp32"; }
  virtual Interaction interaction(const Layout&) const { return {}; }

  // Throws if the options name parts that the model lacks. Called before a model is boosted, while
  // it is unchanged.
  virtual void check_fits(const Model&) const {}
  // Casts parameters and makes masters. Called once, when model and optimizers are boosted.
  virtual void prepare(const Model&, const Optimizers&) {}

  // --- passes, any number of them before a step
  // Returns the op policy during forward and loss; null if there is none.
  virtual const OpPolicy* policy(Device) const { return nullptr; }
  // Convert the model's input, and its output for the caller; both differentiable.
  virtual Tensor cast_input(const Tensor& x) const { return x; }
  virtual Tensor cast_output(const Tensor& y) const { return y; }
  // Ends a forward pass on the tape. Returns values that ranks must share, such as each layer's
  // largest magnitude.
  virtual SharedNumbers end_forward() { return {}; }
  // Begins the backward pass of one loss, or of many micro-batches, also on ranks without a loss.
  // Throws for options that the strategy does not support. By default these are any loss_id except
  // 0, and delay_overflow_check.
  virtual LossPass begin_loss(const LossStart& start);

  // --- gradients of one optimizer
  // Makes the optimizer's gradients in memory true gradients (for clipping and inspection).
  // Gradients of 16-bit parameters become f32; otherwise they would lose small values.
  virtual void unscale(Optimizer&) {}
  // Returns the factor that makes the optimizer's gradients in memory true: f32 on the device;
  // undefined means 1.
  virtual Tensor gradient_factor(const Optimizer&) const { return {}; }
  // Returns the factor that makes the norm of the gradients in memory the true norm, so that
  // clipping by norm needs no writing pass. Default: gradient_factor; if that is undefined,
  // unscales first.
  virtual Tensor norm_factor(Optimizer& optimizer);
  // Returns the local verdict before a step.
  virtual Verdict inspect(Optimizer&) { return {}; }
  // Handles that the optimizer's gradients were dropped.
  virtual void abandon(const Optimizer&) {}
  // Updates the scale by the verdict that all ranks agreed on, once all optimizers of the losses
  // have stepped. An overflow in one optimizer's gradients counts for all.
  virtual void update(const Verdict&) {}

 protected:
  // Throws for options that a strategy with one scale for all losses does not have.
  void check_options(const ScaleLossOptions& options) const;
};

using FP32Precision = Precision;

// Makes a strategy for each call that boosts, always with the same options.
using PrecisionMaker = std::function<std::unique_ptr<Precision>()>;

// --- parts of strategies

// Returns torch's autocast lists for a device type and a lower dtype (f16 or bf16). Other lists:
// mixed_precision/ops/op_policies.h.
OpPolicy torch_autocast_policy(DeviceType device, DType lower);

struct ModelCast {
  DType dtype = DType::f16;
  bool masters = true;  // false: the optimizer updates the 16-bit values directly
  // Selects modules whose own parameters and buffers are not converted; empty: none.
  std::function<bool(const std::string& name, const Module& module)> keep = {};
};

// Converts a model's parameters and buffers to 16 bits once, in-place. Optimizers get f32 masters
// of the parameters that they update. Other handles to its tensors see the new dtype, and gradients
// are dropped. A step multiplies 16-bit gradients by the inverse scale in f32, updates the masters
// and writes the 16-bit weights in the same pass. A master holds the parameter's value from before
// the cast. A tensor used by several modules is converted unless all of them are kept. Throws
// unless the dtype is 16-bit, or f64 without masters.
void cast_model(const Model& model, const ModelCast& cast);
void cast_model(const Model& model, Optimizer& optimizer, const ModelCast& cast);
// As above, for several models and optimizers, in any combination.
void cast_models(const std::vector<Model>& models, const std::vector<Optimizer>& optimizers,
                 const ModelCast& cast);

// Keeps batch normalisation with weight and bias, whose statistics need f32: a rule for
// ModelCast::keep.
bool is_affine_batch_norm(const std::string& name, const Module& module);

}  // namespace booster
