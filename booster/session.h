// Session: what boosted objects share. One per call of Booster::boost.
#pragma once

#include "booster/step_report.h"
#include "mixed_precision/precision.h"
#include "plugins/plugin.h"

#include <memory>

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

struct Session {
  std::unique_ptr<Precision> precision;
  std::unique_ptr<Plugin> plugin;
  Model model;
  Optimizer optimizer;
  bool grads_synced = false;          // since the last backward
  double clipped_norm = -1;           // of the next step's gradients; negative: not clipped
  SessionWatcher* watcher = nullptr;  // not owned; null: nobody looks on

  // Waits for the gradients of all ranks, once per step.
  void sync_grads();
  // A forward pass on the tape, or a backward pass, has ended.
  void end_pass(Pass pass);
  // Prints the strategy's notes on rank 0.
  void pass_on_notes();
  // THE order of mixed precision x parallelism; step.cpp.
  StepReport step();
};

}  // namespace booster
