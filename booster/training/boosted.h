// Results of Booster::boost: the same model, optimizer and criterion, now in the chosen precision
// and on the chosen ranks. All are handles on a session. For one thread.
#pragma once

#include "core/data/loader.h"
#include "core/nn/criterion.h"
#include "core/optim/parameter_average.h"
#include "core/optim/schedules/lr_scheduler.h"
#include "mixed_precision/interface/precision.h"
#include "platform/handle.h"

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace booster {

class Plugin;
struct Session;  // booster/training/session.h

// The result of a step. Values stay on the device until they are read.
class StepReport {
 public:
  // `norm`: norm of the true gradients before clipping; if undefined, grad_norm() computes it.
  StepReport(Verdict verdict, Tensor norm, std::vector<Tensor> gradients,
             std::shared_ptr<const Precision> precision);

  // Returns true if a gradient was not finite, so that nothing was changed. Waits for the device.
  bool skipped() const;
  // Returns the loss scale of this step; 1 in strategies without one.
  double loss_scale() const;
  // Returns a description of what the loss scaler has refused so far and its meaning, or "". A
  // refusal: the scaler keeps a scale because a new one would no longer help, and training may not
  // recover. Waits for the device.
  std::string refusal() const { return precision_->refusal(); }
  // Returns the Euclidean norm of the true gradients before clipping by norm. Costs a pass over
  // them unless they were clipped; call it before the next backward pass.
  double grad_norm() const;

 private:
  Verdict verdict_;
  Tensor norm_;  // undefined: not known yet
  std::vector<Tensor> gradients_;
  std::shared_ptr<const Precision> precision_;
};

// A range of steps: "FIRST:LAST", counted from 1, both included.
struct StepRange {
  int64_t first = 0, last = 0;
};

// Returns nothing unless the text is two whole numbers with 1 <= FIRST <= LAST.
std::optional<StepRange> parse_step_range(std::string_view text);

class BoostedModel {
 public:
  explicit BoostedModel(std::shared_ptr<Session> session);
  // For one of several models of a session.
  BoostedModel(std::shared_ptr<Session> session, const Model& model)
      : session_(std::move(session)), model_(model) {}

  // Runs forward in the strategy's precision.
  Tensor operator()(const Tensor& x) const;
  Module* operator->() const { return &model_.module(); }
  // Returns the wrapped model; its parameters are the ones that train.
  const Model& unwrap() const { return model_; }
  void train(bool training = true) const { model_.train(training); }
  void eval() const { model_.eval(); }
  // Sends rank 0's saved buffers, such as the statistics of batch normalisation, to all ranks. Each
  // step does so already. All ranks call it, before an evaluation that follows training passes
  // without a step.
  void share_buffers() const;
  // For the library's own use.
  Session& session() const { return *session_; }

 private:
  friend class Booster;
  Handle<Session, "boosted model"> session_;
  Model model_;
};

// Result of a step with a closure: the closure's loss and the step's report.
struct LossAndReport {
  Tensor loss;
  StepReport report;
};

class BoostedOptimizer {
 public:
  explicit BoostedOptimizer(std::shared_ptr<Session> session) : session_(std::move(session)) {}

  // Runs the step function (step.cpp).
  StepReport step();
  // Calls `closure`, which computes the loss and its gradients with the tape on, then steps, as
  // Optimizer::step(closure) does. Works in every strategy because the closure runs once; PyTorch's
  // scaler supports no closure.
  //   const auto [loss, report] = opt.step([&] {
  //     opt.zero_grad();
  //     const Tensor loss = loss_fn(net(x), y);
  //     booster.backward(loss, opt);
  //     return loss;
  //   });
  template <class Closure>
  requires std::is_invocable_r_v<Tensor, Closure&> LossAndReport step(Closure&& closure) {
    return step_after(std::ref(closure));
  }
  void zero_grad();
  // Clips the true gradients of all ranks, in every strategy. Returns their norm before clipping,
  // which stays on the device until it is read.
  DeviceNumber clip_grad_by_norm(double max_norm);
  void clip_grad_by_value(double limit);
  double lr(int group = 0) const;
  // Returns the factor of the next loss. After step() it is torch's scaler.get_scale(); the report
  // has the step's own scale. 1 in strategies without a scale. `loss_id` chooses one of the scalers
  // of fp16_apex with num_losses > 1. Waits for the device.
  double loss_scale(int loss_id = 0) const;
  // Returns the wrapped optimizer.
  Optimizer& unwrap() const;
  // For the library's own use.
  Session& session() const { return *session_; }

 private:
  friend class Booster;
  friend AveragedWeights averaged_weights(const BoostedOptimizer& optimizer,
                                          const ParameterAverage& average);
  LossAndReport step_after(const std::function<Tensor()>& closure);

  Handle<Session, "boosted optimizer"> session_;
};

// While the result lives, the boosted model computes with the averages. All ranks create and
// destroy it together. Works with every plugin and strategy.
//   { const AveragedWeights weights = averaged_weights(opt, average);  accuracy = evaluate(net); }
AveragedWeights averaged_weights(const BoostedOptimizer& optimizer,
                                 const ParameterAverage& average);

// Keeps gradients on this rank during its lifetime: see Booster::no_sync. Guards may be nested.
class NoSyncGuard {
 public:
  explicit NoSyncGuard(std::shared_ptr<Session> session);
  ~NoSyncGuard();
  NoSyncGuard(const NoSyncGuard&) = delete;
  NoSyncGuard& operator=(const NoSyncGuard&) = delete;

 private:
  std::shared_ptr<Session> session_;
};

// Makes whole parameters readable during its lifetime: to inspect weights between steps, or for a
// loss that uses them outside the model (then from before forward until backward has ended). Writes
// to them persist. Needed if ranks hold parts of parameters (fsdp); otherwise has no effect. All
// ranks create and destroy it together.
class WholeParameters {
 public:
  explicit WholeParameters(const BoostedModel& model);
  ~WholeParameters();
  WholeParameters(const WholeParameters&) = delete;
  WholeParameters& operator=(const WholeParameters&) = delete;

 private:
  std::shared_ptr<Plugin> plugin_;
};

// Members are in the order of boost's arguments, for structured bindings.
struct BoostedPair {
  BoostedModel model;
  BoostedOptimizer optimizer;
};
struct BoostedTriple {
  BoostedModel model;
  BoostedOptimizer optimizer;
  Criterion criterion;
};
// Several of each, in the order of boost's arguments.
struct BoostedGroup {
  std::vector<BoostedModel> models;
  std::vector<BoostedOptimizer> optimizers;
};
struct Boosted {
  BoostedModel model;
  BoostedOptimizer optimizer;
  Criterion criterion;
  DataLoader dataloader;
  LRScheduler lr_scheduler;
};

}  // namespace booster
