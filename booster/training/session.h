// Session: the state that a boosted model and its optimizer share. There is one per optimizer.
// Sessions of one Booster::boost call share strategy, plugin and iteration.
//
// docs/training-step.md defines which calls may follow each other. Passes come in any number and
// order. Then each optimizer steps, or zero_grad discards its gradients.
#pragma once

#include "booster/training/gradient_loans.h"
#include "booster/training/joined_mean.h"
#include "booster/training/skipped_steps.h"
#include "core/autograd/gradient_keeper.h"
#include "core/nn/criterion.h"
#include "mixed_precision/interface/precision.h"
#include "platform/one_thread.h"
#include "plugins/interface/plugin.h"

#include <functional>
#include <memory>
#include <vector>

namespace booster {

class StepReport;

// Observes a session's steps as they run (Diagnose). Called on the thread that trains.
class SessionWatcher {
 public:
  virtual ~SessionWatcher() = default;
  virtual void forward_begins(const Tensors& input) = 0;
  virtual void backward_begins(const Tensor& loss) = 0;  // not yet scaled
  // Handles known gradients: backward ended, or the strategy or a clip may have changed gradients
  // in memory.
  virtual void gradients_are_known() = 0;
  // Handles the begin of a step. Gradients and verdict are global; nothing has changed yet.
  virtual void step_begins(const Verdict& verdict) = 0;
  virtual void step_ends(const StepReport& report) = 0;
};

// State from the losses to the steps of their optimizers; the loss scale stays constant meanwhile.
struct Iteration {
  std::unique_ptr<GradientLoans> loans;    // of the gradients in `keeper`
  std::unique_ptr<GradientKeeper> keeper;  // for all objects of one boost
  Optimizers all;                          // that were boosted together
  Optimizers awaited;                      // had a loss and have not stepped since
  Optimizers half_done;                    // a backward pass failed since their zero_grad
  Optimizers stepped;                      // since the scale last moved
  Tensor found_inf;                        // of the steps so far; undefined: no check was made
  bool refusal_told = false;
  int64_t steps = 0;                          // steps so far, of all optimizers
  bool statistics_noted = false;              // reported frozen batch norms (frozen_statistics.h)
  std::shared_ptr<const BatchWeight> weight;  // of the current passes' batch
  int no_sync = 0;  // living guards: gradients of the next backward passes stay local
  OneThread thread{"booster", "objects of one boost", "a model"};
  std::unique_ptr<JoinedMean> joined;  // null: each batch's loss is a mean of its own

  bool awaits(const Optimizer& optimizer) const;
  // Updates the scale if an optimizer has stepped since it last moved.
  void end(Precision& precision);
  void add(const Verdict& verdict, const Optimizer& optimizer);
};

struct Session {
  std::shared_ptr<Precision> precision;
  std::shared_ptr<Plugin> plugin;
  std::shared_ptr<Iteration> iteration;
  Model model;  // if there are several: all of them, as parts "0", "1", ...
  Optimizer optimizer;
  SkippedSteps skipped;
  SessionWatcher* watcher = nullptr;                // not owned; may be null
  std::shared_ptr<class BackgroundSave> last_save;  // booster/checkpoint/async_save.h; may be null
  const PrecisionNumbers first_precision_state;     // at boost: the options that the program gave
  const uint64_t data_place;  // of this rank, along the axis data: it draws numbers of its own

  Session(std::shared_ptr<Precision> precision, std::shared_ptr<Plugin> plugin,
          std::shared_ptr<Iteration> iteration, const Model& model, const Optimizer& optimizer);
  // Prints the remaining notes.
  ~Session();

  // Runs a forward pass of one of the session's models, in the plugin's order.
  Tensors forward(const Model& model, const Tensors& x);
  // Waits for the gradients of all ranks. Throws an error that names `call` if a backward pass
  // failed among several ranks and zero_grad has not discarded it since.
  void sync_grads(const char* call);
  // Begins every call that makes, changes or uses gradients: takes over the program's writes to
  // them. Throws an error that names `call` if work is being captured (core/tensor/capture).
  void settle(const char* call);
  // Discards all gradients; the iteration does not wait for this optimizer.
  void zero_grad();
  // Runs forward and backward of one batch in the plugin's order. Returns the loss, off the tape.
  Tensor run(const Model& model, const Criterion& criterion, const Tensors& input,
             const Tensors& target);
  // Prints the strategy's and the plugin's notes on rank 0.
  void pass_on_notes();
  // Notes, every `SkippedSteps::interval` steps, if all recent steps were skipped or if the scaler
  // refused a scale. Then waits for the device.
  void look_for_skips(bool at_end = false);
  // Notes once, in the first step or every 64 steps, frozen batch norms whose statistics change.
  void look_for_frozen_statistics();
  // Prints all notes, including those that need values from the device; waits for the device.
  void pass_on_all_notes();
  // Performs the step, in the order of mixed precision and parallelism; see step.cpp.
  StepReport step();
  // Ends the iteration if an optimizer has stepped in it and none is awaited: updates the scale.
  // Called before a pass for an optimizer that has stepped, and before a checkpoint.
  void end_iteration();

 private:
  friend class BackwardPass;
  // Links [first, last) of a model. `trains`: some part of the model is in training mode.
  struct LinkRun {
    int first, last;
    bool trains;
  };
  // Runs the links, with the work of strategy and plugin around a pass.
  Tensors pass(const Model& model, const Tensors& x, const LinkRun& run);
  // Returns the functions that run the model's passes, without a loss.
  MicroStep passes(const Model& model);
  // Makes the strategy's values from a pass the same on all ranks.
  void share(SharedNumbers shared);
  Tensor known_norm(const Verdict& verdict) const;
  // Removes the optimizer from the awaited ones. Ends the iteration if all optimizers have stepped
  // in it, or if this one abandons its gradients and was the last awaited one.
  void leave_iteration(bool abandons);
  void check_backward_ended(const char* call) const;
};

// Runs backward of a loss for the optimizers of these sessions, all from one boost call.
void backward(const Tensor& loss, const std::vector<Session*>& sessions,
              const ScaleLossOptions& options);

}  // namespace booster
