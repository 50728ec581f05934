// Session: what a boosted model and its optimizer share. One per optimizer; those of one call of
// Booster::boost share strategy, plugin and iteration.
#pragma once

#include "booster/step_report.h"
#include "mixed_precision/precision.h"
#include "plugins/plugin.h"

#include <memory>
#include <vector>

namespace booster {

// Somebody who looks on while a session's steps run (Diagnose). Called on the thread that trains.
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
  Optimizers awaited;            // a loss was for them, and they have not stepped since
  bool stepped = false;          // one of them has
  Tensor found_inf;              // of those that have; undefined: nothing was looked for
  bool grads_synced = false;     // since the last backward
  bool grads_are_local = false;  // those of the coming backward passes (no_sync)

  void add(const Verdict& verdict);
};

struct Session {
  std::shared_ptr<Precision> precision;
  std::shared_ptr<Plugin> plugin;
  std::shared_ptr<Iteration> iteration;
  Model model;  // of several models: all of them, as parts "0", "1", ...
  Optimizer optimizer;
  SessionWatcher* watcher = nullptr;  // not owned; null: nobody looks on

  Session(std::shared_ptr<Precision> precision, std::shared_ptr<Plugin> plugin,
          std::shared_ptr<Iteration> iteration, const Model& model, const Optimizer& optimizer);
  // Prints what there is still to tell.
  ~Session();

  // Waits for the gradients of all ranks, once per step.
  void sync_grads();
  // A forward pass on the tape, or a backward pass, has ended.
  void end_pass(Pass pass);
  // Forgets all gradients; the iteration does not wait for this optimizer.
  void zero_grad();
  // Prints the strategy's notes on rank 0.
  void pass_on_notes();
  // The same, and what the host has not asked the device for yet: waits for the device.
  void pass_on_all_notes();
  // THE order of mixed precision x parallelism; step.cpp.
  StepReport step();

 private:
  // The iteration ends with the last optimizer that it waits for; then the scale moves.
  void leave_iteration();
};

// Backward of a loss whose gradients are for these sessions' optimizers, all of one call of boost.
void backward(const Tensor& loss, const std::vector<Session*>& sessions,
              const ScaleLossOptions& options);

}  // namespace booster
