// What Booster::boost gives back: the same model, optimizer and criterion, now in the chosen
// numbers and on the chosen ranks. All are handles on a session; they are for one thread.
#pragma once

#include "booster/training/session.h"
#include "core/data/loader.h"
#include "core/nn/criterion.h"
#include "core/optim/parameter_average.h"
#include "core/optim/schedules/lr_scheduler.h"

#include <functional>
#include <memory>
#include <type_traits>
#include <vector>

namespace booster {

class BoostedModel {
 public:
  explicit BoostedModel(std::shared_ptr<Session> session) : BoostedModel(session, session->model) {}
  // One of several models that a session has.
  BoostedModel(std::shared_ptr<Session> session, const Model& model)
      : session_(std::move(session)), model_(model) {}

  // Forward in the strategy's numbers.
  Tensor operator()(const Tensor& x) const;
  Module* operator->() const { return &model_.module(); }
  // The model inside; its parameters are those that train.
  const Model& unwrap() const { return model_; }
  void train(bool training = true) const { model_.train(training); }
  void eval() const { model_.eval(); }
  // Gives all ranks rank 0's buffers, such as the statistics of batch normalisation: those that are
  // saved. Each step does so already. All ranks call it, before an evaluation that follows training
  // passes without a step.
  void share_buffers() const { session_->plugin->share_buffers(); }
  // What the library itself works with; programs have no need of it.
  Session& session() const { return *session_; }

 private:
  friend class Booster;
  std::shared_ptr<Session> session_;
  Model model_;
};

// What a step with a closure gives: what the closure returned, and the report of the step.
struct LossAndReport {
  Tensor loss;
  StepReport report;
};

class BoostedOptimizer {
 public:
  explicit BoostedOptimizer(std::shared_ptr<Session> session) : session_(std::move(session)) {}

  // Runs the step function (step.cpp).
  StepReport step() { return session_->step(); }
  // Calls `closure`, which computes the loss and its gradients with the tape on, then steps, as
  // Optimizer::step(closure) does. In every strategy, for it runs once: PyTorch's scaler takes
  // none.
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
  // Clips the true gradients of all ranks; returns their norm before, which is read when it is
  // looked at. Right in every strategy.
  DeviceNumber clip_grad_by_norm(double max_norm);
  void clip_grad_by_value(double limit);
  double lr(int group = 0) const { return session_->optimizer.lr(group); }
  // What the next loss will be multiplied by: after step() torch's scaler.get_scale(), the step's
  // own being in its report. 1 in strategies without a scale. `loss_id`: which of the scalers that
  // fp16_apex has with num_losses > 1. Waits for the device.
  double loss_scale(int loss_id = 0) const { return session_->precision->loss_scale(loss_id); }
  // The optimizer inside.
  Optimizer& unwrap() const { return session_->optimizer; }
  // What the library itself works with; programs have no need of it.
  Session& session() const { return *session_; }

 private:
  friend class Booster;
  friend AveragedWeights averaged_weights(const BoostedOptimizer& optimizer,
                                          const ParameterAverage& average);
  LossAndReport step_after(const std::function<Tensor()>& closure);

  std::shared_ptr<Session> session_;
};

// While it lives, the boosted model computes with the averages, on all ranks: they make it and end
// it together. In any plugin and strategy.
//   { const AveragedWeights weights = averaged_weights(opt, average);  accuracy = evaluate(net); }
AveragedWeights averaged_weights(const BoostedOptimizer& optimizer,
                                 const ParameterAverage& average);

// Keeps gradients on this rank until it goes: see Booster::no_sync. Guards may be nested.
class NoSyncGuard {
 public:
  explicit NoSyncGuard(std::shared_ptr<Session> session);
  ~NoSyncGuard();
  NoSyncGuard(const NoSyncGuard&) = delete;
  NoSyncGuard& operator=(const NoSyncGuard&) = delete;

 private:
  std::shared_ptr<Session> session_;
};

// The numbers of whole parameters, for anybody, until it goes: to look at weights between steps, or
// for a loss that uses them beside the model (then from before forward until backward has ended).
// What is written meanwhile stays. Needed where ranks keep parts of them (fsdp); without effect
// elsewhere. All ranks must do so.
class WholeParameters {
 public:
  explicit WholeParameters(const BoostedModel& model);
  ~WholeParameters();
  WholeParameters(const WholeParameters&) = delete;
  WholeParameters& operator=(const WholeParameters&) = delete;

 private:
  std::shared_ptr<Plugin> plugin_;
};

// In the order of boost's arguments, for structured bindings.
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
