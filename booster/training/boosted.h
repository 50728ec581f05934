// Results of Booster::boost: the same model, optimizer and criterion, now in the chosen precision
// and on the chosen ranks. All are handles on a session. Also what many loops need besides: metrics
// of an evaluation, and learning rates by layer. For one thread.
#pragma once

#include "core/data/loader.h"
#include "core/nn/criterion.h"
#include "core/nn/models.h"
#include "core/optim/optimizers.h"
#include "core/optim/schedules/lr_scheduler.h"
#include "mixed_precision/interface/precision.h"
#include "parallel/groups/group.h"

#include <concepts>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

namespace booster {

class Plugin;
struct Session;  // booster/training/session.h

// The result of a step. Values stay on the device until they are read.
class StepReport {
 public:
  // `norm` is the norm of the true gradients before clipping. If it is undefined, grad_norm()
  // computes it.
  StepReport(Verdict verdict, Tensor norm, std::vector<Tensor> gradients,
             std::shared_ptr<const Precision> precision);

  // Returns true if a gradient was not finite, so that nothing was changed. Waits for the device.
  bool skipped() const;
  // Returns the loss scale of this step; 1 in strategies without one.
  double loss_scale() const;
  // Explains the loss scaler's refusals so far; "" if there are none. The scaler refuses a new
  // scale that would not help; training may then not recover. Waits for the device.
  std::string refusal() const { return precision_->refusal(); }
  // Returns the Euclidean norm of the true gradients before clipping by norm. Needs a pass over
  // them unless they were clipped. Call it before the next backward pass.
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
  // Makes the handle of one of several models of a session.
  BoostedModel(std::shared_ptr<Session> session, const Model& model)
      : session_(std::move(session)), model_(model) {}

  // Runs forward in the strategy's precision.
  Tensor operator()(const Tensor& x) const;
  Tensors operator()(const Tensors& x) const;
  Module* operator->() const { return &model_.module(); }
  // Returns the wrapped model; its parameters are the trained ones.
  const Model& unwrap() const { return model_; }
  void train(bool training = true) const { model_.train(training); }
  void eval() const { model_.eval(); }
  // Sends rank 0's saved buffers, such as the statistics of batch normalisation, to all ranks. Each
  // step already does so. All ranks call it before an evaluation after training passes without a
  // step.
  void share_buffers() const;
  // Returns the session, for the library's own use.
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
  // Optimizer::step(closure) does. Works in every strategy because the closure runs once.
  // (PyTorch's scaler supports no closure.)
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
  // Returns the factor of the next loss. After step() it equals torch's scaler.get_scale(); the
  // report has the step's own scale. It is 1 in strategies without a scale. `loss_id` chooses one
  // of the scalers of fp16_apex with num_losses > 1. Waits for the device.
  double loss_scale(int loss_id = 0) const;
  // Returns the wrapped optimizer.
  Optimizer& unwrap() const;
  // Returns the session, for the library's own use.
  Session& session() const { return *session_; }

 private:
  friend class Booster;
  friend AveragedWeights averaged_weights(const BoostedOptimizer& optimizer,
                                          const ParameterAverage& average);
  LossAndReport step_after(const std::function<Tensor()>& closure);

  Handle<Session, "boosted optimizer"> session_;
};

// Makes the boosted model compute with the averages while the result lives. All ranks create and
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

// Makes whole parameters readable during its lifetime, to inspect weights between steps. A loss
// that uses them outside the model needs one from before forward to the end of backward. Writes to
// them persist. It has an effect only if ranks hold parts of parameters (fsdp). All ranks create
// and destroy it together.
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
// The type that boost takes an argument for: a criterion, a loader or a scheduler.
template <class Part>
concept IsCriterion = std::convertible_to<Part, Criterion>;
template <class Part>
using BoostedPart = std::conditional_t<
    IsCriterion<Part>, Criterion,
    std::conditional_t<std::convertible_to<Part, DataLoader>, DataLoader, LRScheduler>>;
template <class... Parts>
using BoostedParts = std::tuple<BoostedModel, BoostedOptimizer, BoostedPart<Parts>...>;
// Several models, optimizers and so on, each in the order of boost's arguments.
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

// Returns true if all parameters and buffers that this rank holds are finite. Reads them once, and
// waits for the device.
bool weights_are_finite(const Model& model);

// --- Means over the samples of an evaluation. Each sample counts once, on any number of ranks.
//
//   MeanMetric accuracy(data), loss(data);               // data: a DataLoader of the evaluation
//   for (auto& [image, label] : data) {
//     const Tensor y = net(image);
//     accuracy.add(top_k_correct(y, label));
//     loss.add(cross_entropy(y, label, {.reduction = Reduction::none}));
//   }
//   print(accuracy.value(group), loss.value(group));     // all ranks call it
//
// If ranks have even shares, some samples appear twice so that all ranks have the same number of
// batches; MeanMetric ignores the repeats. With uneven shares (DataLoaderOptions::even_shares)
// every sample counts. For the thread that uses the loader.

class MeanMetric {
 public:
  explicit MeanMetric(const DataLoader& loader) : loader_(loader) {}

  // Adds one value for each sample of the current batch: (n), of any dtype. Reads nothing from the
  // device. Throws for another shape, and for a batch with repeated samples and omitted bad images.
  void add(const Tensor& values);
  void reset();

  // Returns the mean over the samples of all ranks. Collective over `group`. Throws if no rank had
  // a sample.
  double value(const Group& group = Group()) const;

 private:
  DataLoader loader_;
  Tensor sum_;  // f64, no dimensions, on the device of the values; undefined: 0
  int64_t samples_ = 0;
};

// The rows of an evaluation, each sample's once, from all ranks: for metrics that are no means.
// docs/guides/evaluate-and-serve.md has an example.
class Predictions {
 public:
  explicit Predictions(const DataLoader& loader) : loader_(loader) {}
  // Adds a row for each sample of the current batch: (n, ...), of one dtype and one shape but for
  // n. Throws as MeanMetric does.
  void add(const Tensor& rows);
  void reset() { rows_.clear(); }
  // Returns the rows of all ranks on the CPU, in one process's order. Collective over `group`.
  // Throws if no rank had a sample.
  Tensor all(const Group& group = Group()) const;

 private:
  DataLoader loader_;
  std::vector<Tensor> rows_;
};

// Returns how often class i (row) was predicted as class j, i64 (classes, classes). Arguments are
// (n) i64, below `classes`.
Tensor confusion_matrix(const Tensor& predicted, const Tensor& labels, int64_t classes);
// Returns 2 hits / (predictions + labels) of each class, f64 (classes); 0 for a class without any.
Tensor f1_scores(const Tensor& confusion);
// Returns the area under the ROC curve of scores and labels (n), 0 or 1; equal scores count half.
// Throws unless both labels occur and no score is nan.
double roc_auc(const Tensor& scores, const Tensor& labels);

// Returns 1 where the label is among the k largest logits of its row, else 0. logits (n, classes),
// labels (n) i64; result (n) f32. Among equal logits the first counts as larger. A row whose label
// has a nan logit counts as wrong.
Tensor top_k_correct(const Tensor& logits, const Tensor& labels, int64_t k = 1);

// --- Layer-wise learning-rate decay, as in timm's param_groups_layer_decay and in BEiT: the closer
// a layer is to the input, the smaller its learning rate.
//
//   auto optimizer = AdamW(layer_decay_groups(model, {.lr = 1e-3, .weight_decay = 0.05,
//                                                     .layer_decay = 0.65}));

struct LayerDecayOptions {
  double lr = 1e-3;  // of the last layer
  double weight_decay = 0.05;
  double layer_decay = 0.75;  // from each layer to the one before it
  double min_scale = 0;       // lower bound of a layer's rate, relative to the last layer's
  // Further parameters without weight decay, besides one-dimensional ones and those that the
  // model's traits name (core/nn/module_traits.h).
  std::vector<std::string> no_weight_decay = {};
};

// Returns all parameters of a model in groups with their own `lr` and `weight_decay`. Layers are
// the model's links (core/nn/module.h): an embedding, each block, the head. A normalisation in
// the last link belongs to the layer before it. A model with one link is one layer. Throws if an
// option is out of range.
std::vector<ParameterGroup> layer_decay_groups(const Model& model, LayerDecayOptions options = {});

// --- generation of text, between steps of a training or after it

// As generate() for a Model (core/nn/models.h). The training goes on as if it had not been
// called: modes of modules are restored, nothing is recorded, and its random streams do not move.
//
// Ranks along the axis tensor call it with the same prompts and get the same texts, which the first
// of them chooses. Other ranks may have other prompts. Where ranks hold parts of parameters (fsdp),
// these are whole meanwhile, and all ranks call it together. Throws where ranks share layers
// (pipeline) or tokens (sequence).
TokenTexts generate(const BoostedModel& model, const TokenTexts& prompts,
                    const GenerateOptions& options = {});

}  // namespace booster
