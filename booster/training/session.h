// Session: what a boosted model and its optimizer share. One per optimizer; those of one call of
// Booster::boost share strategy, plugin and iteration.
//
// Which calls may follow each other is docs/training-step.md: passes in any number and order, then
// the step of each optimizer, or zero_grad, which abandons what was computed for it.
#pragma once

#include "booster/training/gradient_loans.h"
#include "booster/training/joined_mean.h"
#include "booster/training/one_thread.h"
#include "booster/training/skipped_steps.h"
#include "booster/training/step_report.h"
#include "core/autograd/gradient_keeper.h"
#include "core/nn/criterion.h"
#include "mixed_precision/interface/precision.h"
#include "plugins/interface/plugin.h"

#include <functional>
#include <memory>
#include <vector>

namespace booster {

// Sees a session's steps as they run (Diagnose). Called on the thread that trains.
class SessionWatcher {
 public:
  virtual ~SessionWatcher() = default;
  virtual void forward_begins(const Tensor& input) = 0;
  virtual void backward_begins(const Tensor& loss) = 0;  // not yet scaled
  // Backward ended, or the strategy or a clip was asked to change gradients in memory.
  virtual void gradients_are_known() = 0;
  // Gradients and verdict are those of all ranks; nothing is changed yet.
  virtual void step_begins(const Verdict& verdict) = 0;
  virtual void step_ends(const StepReport& report) = 0;
};

// From the losses to the steps of the optimizers that they are for: the loss scale stays.
struct Iteration {
  std::unique_ptr<GradientLoans> loans;    // of the gradients that the keeper keeps
  std::unique_ptr<GradientKeeper> keeper;  // of what was boosted together
  Optimizers all;                          // that were boosted together
  Optimizers awaited;                      // a loss was for them, and they have not stepped since
  Optimizers half_done;                    // a backward pass failed since their zero_grad
  bool stepped = false;                    // one of them has
  Tensor found_inf;                        // of those that have; undefined: nothing was looked for
  bool refusal_told = false;
  int64_t steps = 0;              // so far, of all optimizers
  bool statistics_noted = false;  // of batch norms that are frozen (frozen_statistics.h)
  std::shared_ptr<const BatchWeight> weight;  // of the batch that passes are for
  int no_sync = 0;  // guards alive: gradients of the coming backward passes stay local
  OneThread thread;
  std::unique_ptr<JoinedMean> joined;  // null: each batch's loss is a mean of its own

  bool awaits(const Optimizer& optimizer) const;
  void add(const Verdict& verdict, const Optimizer& optimizer);
};

struct Session {
  std::shared_ptr<Precision> precision;
  std::shared_ptr<Plugin> plugin;
  std::shared_ptr<Iteration> iteration;
  Model model;  // of several models: all of them, as parts "0", "1", ...
  Optimizer optimizer;
  SkippedSteps skipped;
  SessionWatcher* watcher = nullptr;                // not owned; may be null
  std::shared_ptr<class BackgroundSave> last_save;  // booster/checkpoint/async_save.h; may be null
  const PrecisionState first_precision_state;       // as boosted: the options a program gave

  Session(std::shared_ptr<Precision> precision, std::shared_ptr<Plugin> plugin,
          std::shared_ptr<Iteration> iteration, const Model& model, const Optimizer& optimizer);
  // Prints the notes that are left.
  ~Session();

  // A forward pass of one of the session's models, as the plugin orders it.
  Tensor forward(const Model& model, const Tensor& x);
  // Waits for the gradients of all ranks. Error, by the call's name, where a backward pass failed
  // among several ranks, and zero_grad has not forgotten it.
  void sync_grads(const char* call);
  // What every call that makes, changes or uses gradients begins with: what the program wrote to
  // them counts. Error, by the call's name, where work is captured (core/tensor/capture).
  void settle(const char* call);
  // Forgets all gradients; the iteration does not wait for this optimizer.
  void zero_grad();
  // Forward and backward of one batch as the plugin orders it; the loss, off the tape.
  Tensor run(const Model& model, const Criterion& criterion, const Tensor& input,
             const Tensor& target);
  // Prints the strategy's and the plugin's notes on rank 0.
  void pass_on_notes();
  // Once in many steps: tells if step after step is skipped, or the scaler refused something. Waits
  // for the device then.
  void look_for_skips(bool at_end = false);
  // In the first step, and once in many: notes, once, batch norms that are frozen but move.
  void look_for_frozen_statistics();
  // Prints the notes, with what only the device knows so far: waits for the device.
  void pass_on_all_notes();
  // THE order of mixed precision x parallelism; step.cpp.
  StepReport step();

 private:
  friend class BackwardPass;
  // Links [first, last) of a model, of which some part is in training mode or none.
  struct LinkRun {
    int first, last;
    bool trains;
  };
  // Runs them with all that strategy and plugin do around a pass.
  Tensor pass(const Model& model, const Tensor& x, const LinkRun& run);
  // The functions that run them, without a loss.
  MicroStep passes(const Model& model);
  // Makes the numbers that a pass left the same on all ranks.
  void end_pass(Pass pass);
  Tensor known_norm(const Verdict& verdict) const;
  // The iteration ends with the last optimizer that it waits for; then the scale moves.
  void leave_iteration();
  void check_backward_ended(const char* call) const;
};

// Backward of a loss whose gradients are for these sessions' optimizers, all of one call of boost.
void backward(const Tensor& loss, const std::vector<Session*>& sessions,
              const ScaleLossOptions& options);

}  // namespace booster
