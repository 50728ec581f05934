// Booster: chooses the precision of a model and its distribution without changes to the training
// loop.
//
//   World world = launch_from_env();
//   Booster booster = Booster::from_config(config);      // or Booster({.mixed_precision = "bf16"})
//   auto boosted = booster.boost(model, optimizer, criterion, loader, scheduler);
//   auto& [net, opt, loss_fn, data, lr] = boosted;
//   for (auto& [image, label] : data) {
//     opt.zero_grad();
//     auto loss = loss_fn(net(image), label);
//     booster.backward(loss, opt);
//     auto report = opt.step();
//     lr.step(report);
//   }
//
// Read these first; the others are for details:
//   booster/booster.h                          Booster: boost, backward, save and load
//   core/tensor/tensor.h                       Tensor: shape, values, members
//   core/autograd/functions.h                  differentiable functions of tensors
//   core/nn/functional.h                       functions of layers, and losses
//   core/nn/module.h                           Module and Model: parameters, state, hooks
//   core/nn/layers.h                           Linear, Conv2d, Sequential and other layers
//   core/optim/optimizer.h                     Optimizer: groups, steps, clips, state
//   core/data/loader.h                         DataLoader and samplers
//   booster/config/config.h                    Config: options in files and on command lines
//   booster/checkpoint/training_checkpoint.h   saving and resuming a training
//
// This header is the whole library: programs include nothing else. A Booster may boost several
// models, in one call or in separate calls that do not affect each other. One thread at a time.
#pragma once

#include "booster/checkpoint/safetensors/safetensors.h"
#include "booster/checkpoint/training_checkpoint.h"
#include "booster/config/config.h"
#include "booster/config/pretrained.h"
#include "booster/config/registry.h"
#include "booster/numerics/diagnose.h"
#include "booster/profile/profiler.h"
#include "booster/report/run_files.h"
#include "booster/training/boosted.h"
#include "core/autograd/backward.h"
#include "core/autograd/functions.h"
#include "core/autograd/op_policy.h"
#include "core/autograd/tape.h"
#include "core/data/datasets/texts.h"
#include "core/data/transforms/transforms.h"
#include "core/nn/functional.h"
#include "core/nn/models.h"
#include "core/nn/module.h"
#include "core/nn/module_traits.h"
#include "core/nn/sequence_layers.h"
#include "core/optim/optimizers.h"
#include "core/optim/schedules/lr_scheduler.h"
#include "core/tensor/capture/captured_work.h"
#include "core/tensor/exchange/dlpack.h"
#include "core/tensor/memory/memory_report.h"
#include "core/tensor/random/random.h"
#include "core/text/tokenizer.h"
#include "mixed_precision/apex/apex_amp.h"
#include "mixed_precision/built_in.h"
#include "parallel/groups/group.h"
#include "parallel/mesh.h"
#include "platform/program.h"
#include "platform/files/file.h"
#include "platform/warn.h"
#include "plugins/built_in.h"

#include <concepts>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace booster {

// A plugin or a strategy, by name or as an object with options: "torch_ddp",
// TorchDDPPlugin({.bucket_cap_mb = 10}).
template <class Product>
class Choice {
 public:
  using Make = std::function<std::unique_ptr<Product>()>;
  Choice(const char* name) : Choice(std::string(name)) {}
  Choice(std::string name);
  Choice(Make make) : make_(std::move(make)) {}
  template <class P>
  requires std::derived_from<P, Product> Choice(const P& product)
      : make_([copy = std::make_shared<P>(product)] { return std::make_unique<P>(*copy); }) {}
  std::unique_ptr<Product> make() const { return make_(); }

 private:
  Make make_;
};

struct BoosterOptions {
  Choice<Plugin> plugin = "single";
  Choice<Precision> mixed_precision = "fp32";
  // Loss whose gradients a step uses. The choice matters if the step's batches (on ranks or in
  // sequence) differ in their counted rows (ignored labels, class weights, sizes). "ranks": each
  // batch's loss is its own mean; gradients are averaged over the ranks, as in
  //          torch's DDP.
  // "rows":  one mean over all rows of the step, in all batches on all ranks. The loss must
  //          come from boost's criterion or execute_pipeline. Do not divide it by the number of
  //          batches.
  std::string loss_mean = "ranks";
};

class Booster {
 public:
  // Throws an Error with the pair, the reason and an alternative if plugin and strategy are
  // incompatible.
  explicit Booster(BoosterOptions options = {});
  explicit Booster(NoOptions) : Booster() {}
  // Builds a Booster from the config's section "booster". Ranks that train together must have the
  // same config, except files and folders. The call is then collective; a difference throws on all
  // ranks an error that names it.
  static Booster from_config(const Config& config);

  // Prepares all arguments for training: casts parameters, sends rank 0's weights to all ranks and
  // so on. Afterwards use the boosted handles. The session owns the gradients, so the optimizer's
  // own step, zero_grad and clips throw. Its options, schedulers and state work as before.
  // Destroying the last boosted handle drops gradients. Model and optimizer may then be boosted
  // again, unless a plugin spread them over ranks (low_level_zero, fsdp, hybrid_parallel). Throws
  // if the model or optimizer is boosted already or is spread, or if the optimizer belongs to
  // another model. Throws on all ranks if their models, optimizers or strategies differ.
  BoostedPair boost(const Model& model, const Optimizer& optimizer);
  BoostedTriple boost(const Model& model, const Optimizer& optimizer, const Criterion& criterion);
  Boosted boost(const Model& model, const Optimizer& optimizer, const Criterion& criterion,
                const DataLoader& loader, const LRScheduler& scheduler);
  // As above for a model, an optimizer and any other one or two of criterion, loader and scheduler.
  // Returns a tuple in the order of the arguments:
  //   auto [net, opt, loss_fn, data] = booster.boost(model, optimizer, criterion, loader);
  template <class... Parts>
  requires(sizeof...(Parts) == 2 || (sizeof...(Parts) == 1 && (!IsCriterion<Parts> && ...)))
      BoostedParts<Parts...> boost(const Model& model, const Optimizer& optimizer,
                                   const Parts&... parts) {
    BoostedPair pair = boost(model, optimizer);
    return {pair.model, pair.optimizer, boosted_part(pair, BoostedPart<Parts>(parts))...};
  }

  // Boosts any number of models and optimizers that train together. They share a strategy and its
  // loss scale, which changes once every optimizer with a pending loss has stepped.
  BoostedGroup boost(const std::vector<Model>& models, const std::vector<Optimizer>& optimizers);

  // Runs the backward pass of the loss, scaled as the optimizer's strategy requires.
  // `options.loss_id` chooses one of several loss scalers (num_losses of fp16_apex).
  void backward(const Tensor& loss, BoostedOptimizer& optimizer,
                const ScaleLossOptions& options = {}) const;
  // Does the same for a loss whose gradients several optimizers use, all boosted together. Name all
  // of them.
  void backward(const Tensor& loss, const std::vector<BoostedOptimizer>& optimizers,
                const ScaleLossOptions& options = {}) const;
  // Accumulates gradients on this rank, without exchange, until an `active` guard is destroyed. Use
  // it for all but the last batch of a step.
  NoSyncGuard no_sync(const BoostedModel& model, const BoostedOptimizer& optimizer,
                      bool active = true) const;
  // Does the same for all models and optimizers of one boost.
  NoSyncGuard no_sync(const BoostedGroup& group, bool active = true) const;
  // Runs forward and backward of the iterator's next batch in the order that the plugin needs
  // (pipelines cut the batch into micro-batches). Returns the loss. A batch is a loader's, or any
  // pair of input and target, each a Tensor or Tensors.
  template <class Iterator>
  Tensor execute_pipeline(Iterator& batches, const BoostedModel& model, const Criterion& criterion,
                          BoostedOptimizer& optimizer) const {
    const Tensor loss = [&] {
      if constexpr (std::same_as<std::remove_cvref_t<decltype(*batches)>, Batch>)
        return run(batches->inputs(), batches->targets(), model, criterion, optimizer);
      auto& [input, target] = *batches;
      return run(input, target, model, criterion, optimizer);
    }();
    ++batches;
    return loss;
  }

  // Returns a loader of this rank's share of a dataset. If shares are uneven (option `join` of
  // torch_ddp), a backward pass counts for the batch that a loop over such a loader took last.
  DataLoader prepare_dataloader(std::shared_ptr<const Dataset> dataset,
                                DataLoaderOptions options) const;
  template <std::derived_from<Dataset> D>
  DataLoader prepare_dataloader(D dataset, DataLoaderOptions options) const {
    return prepare_dataloader(std::make_shared<D>(std::move(dataset)), std::move(options));
  }

  // Writes the model's whole weights, under the names that a single process uses. The result is a
  // safetensors file. With `shard` it is a folder for Hugging Face's libraries, replaced as a
  // whole. All ranks call it. Rank 0 writes; with `shard` it holds little more than one file of
  // other ranks' tensors at a time. Throws if the folder also holds other files, and for disk
  // errors; the earlier files then remain.
  void save_model(const BoostedModel& model, const std::filesystem::path& checkpoint,
                  const SaveModelOptions& options = {}) const {
    booster::save_model(model, checkpoint, options);
  }
  // Reads weights from a safetensors file, an index, or a folder with either. Converts floating
  // tensors of any floating dtype. Saving and loading both use a model's file form
  // (core/nn/module_traits.h), so that a gpt2 loads Hugging Face's files. With `strict` the names
  // must be the model's. Otherwise unknown tensors are ignored, and the model's missing ones keep
  // their values; both are returned, for this rank's part of the model. All ranks call it. All or
  // nothing: an Error of kind data on any rank is thrown on all. For the training's own state use
  // resume_training.
  NameDifferences load_model(const BoostedModel& model, const std::filesystem::path& checkpoint,
                             bool strict = true) const {
    return booster::load_model(model, checkpoint, strict);
  }

  const Plugin& plugin() const { return *plugin_; }
  const Precision& precision() const { return *precision_; }
  const std::string& loss_mean() const { return options_.loss_mean; }

 private:
  // Returns one session per optimizer.
  std::vector<std::shared_ptr<Session>> open_sessions(const std::vector<Model>& models,
                                                      const Optimizers& optimizers) const;
  // Returns the criterion under the strategy of `pair`; loaders and schedulers as they are.
  static Criterion boosted_part(const BoostedPair& pair, const Criterion& criterion);
  static DataLoader boosted_part(const BoostedPair&, const DataLoader& loader) { return loader; }
  static LRScheduler boosted_part(const BoostedPair&, const LRScheduler& scheduler) {
    return scheduler;
  }
  Tensor run(const Tensors& input, const Tensors& target, const BoostedModel& model,
             const Criterion& criterion, BoostedOptimizer& optimizer) const;

  BoosterOptions options_;
  std::unique_ptr<Plugin> plugin_;  // for queries and dataloaders; sessions have their own
  std::unique_ptr<Precision> precision_;
  std::shared_ptr<BatchWeight> weight_ = std::make_shared<BatchWeight>();  // of the current batch
};

struct PredictorOptions {
  Choice<Precision> mixed_precision = "fp32";
  std::optional<Device> device = {};  // none: where the model is
  int threads = 0;  // of the kernels in one call: 1 for a server's threads; 0: the caller's setting
};

// A model for inference: evaluation mode, no tape, outputs as the boosted model's. Any number of
// threads may call one Predictor, or copies, at the same time, and get the bits that one thread
// gets. So `forward` must not write to members, nor may weights, modes or hooks change meanwhile.
//   const Predictor predict(models::resnet20(), "out/checkpoint", {.mixed_precision = "bf16"});
class Predictor {
 public:
  // Takes the model over: strategies cast its weights in place. Throws for one that is boosted.
  explicit Predictor(const Model& model, PredictorOptions options = {});
  // Loads weights first: a file or folder as for load_model, or a training's (newest checkpoint).
  Predictor(const Model& model, const std::filesystem::path& weights,
            PredictorOptions options = {});

  // Copies inputs to the model's device, where the outputs stay. Throws in training mode.
  Tensor operator()(const Tensor& x) const;
  Tensors operator()(const Tensors& x) const;

 private:
  struct Body;
  std::shared_ptr<Body> body_;
};

}  // namespace booster
