// torch_ddp: data parallelism. Every rank holds the whole model and sees its own share of the data;
// gradients are averaged in buckets while backward runs, so all ranks take the same step.
//
// Semantics follow torch's DistributedDataParallel: rank 0's parameters and buffers are everybody's
// start; all ranks evaluate with rank 0's buffers; accumulation without sending is `no_sync`.
// Unlike there, buffers are sent after each step and not before each forward pass, so that an
// evaluation sends nothing and may be one rank's alone. Any number of backward passes with and
// without `no_sync` may come before a step, each for any of the models that were boosted together,
// and a step that still finds gradients of this rank alone exchanges them first. A parameter that
// an optimizer steps without a gradient is an error that names it, unless `find_unused_parameters`
// or `static_graph` is set; a parameter that is frozen is not asked for one.
//
// `static_graph` promises that each step uses the parameters that the first one did, on each rank
// (torch's option of that name, where another set is undefined; here it is an error that names a
// parameter). Parameters may then be unused, which no step has to search for, and buckets fill in
// the order in which gradients really come. A step is what lies between two exchanges.
//
// `join` is for data that ranks cannot share evenly: prepare_dataloader gives each sample to one
// rank, once an epoch, and the last step is that of one process on the joined batch. torch's Join
// lets ranks that have run out answer the collectives of the others; here they go on in the loop
// with a sample that counts for nothing (DataLoaderOptions::join), so that schedules, clips,
// checkpoints and collectives of the program's own stay the same on all ranks. torch divides by the
// number of ranks, or of those with data; here each sample counts the same.
//
// `comm_dtype` halves what is sent, as torch's fp16_compress_hook and bf16_compress_hook do:
// plugins/gradients/gradient_buckets.h says how it rounds. A gradient that fp16 cannot hold becomes
// infinite on all ranks, and loss scalers skip the step.
#pragma once

#include "core/nn/no_options.h"
#include "plugins/data_parallel.h"
#include "plugins/gradients/gradient_buckets.h"
#include "plugins/gradients/static_graph.h"

#include <string>
#include <vector>

namespace booster {

struct TorchDDPOptions {
  double bucket_cap_mb = 25;            // MiB of gradients per message, at most
  bool find_unused_parameters = false;  // parameters may take no part in a step
  bool broadcast_buffers = true;        // rank 0's buffers go to all after each step
  bool gradient_as_bucket_view = true;  // gradients live in the buckets; false: copied there
  bool static_graph = false;            // every step uses the same parameters
  std::string comm_dtype = "";          // f32 gradients travel as "fp16" or "bf16"
  bool join = false;                    // uneven shares of the data are trained on as they are
};

class TorchDDPPlugin : public DataParallelPlugin {
 public:
  explicit TorchDDPPlugin(TorchDDPOptions options = {});
  explicit TorchDDPPlugin(NoOptions) : TorchDDPPlugin() {}
  // On ranks other than all of the world's, or along one axis of several.
  TorchDDPPlugin(TorchDDPOptions options, Mesh mesh);
  TorchDDPPlugin(const TorchDDPPlugin& other);
  ~TorchDDPPlugin() override;

  const char* name() const override { return "torch_ddp"; }
  void prepare(const Model& model, const Optimizers& optimizers) override;
  DataLoader prepare_dataloader(std::shared_ptr<const Dataset> dataset,
                                DataLoaderOptions options) const override;
  void begin(Pass pass, bool sync) override;
  void end(Pass pass) override;
  void sync_grads(const Optimizer& optimizer) override;

 private:
  // Packs the parameters that require a gradient and are in no bucket yet.
  void watch_new();
  void on_ready(int64_t parameter);
  void adopt_gradients_of_others();
  void end_static_exchange();
  void sync_static();

  TorchDDPOptions options_;
  Parameters watched_;
  std::vector<int> hooks_;  // of each
  GradientBuckets buckets_;
  StaticGraph graph_;
  bool repacks_ = false;      // the graph is known, and the buckets do not go by it yet
  bool exchanges_ = false;    // a backward pass is open whose gradients go to all
  bool keeps_local_ = false;  // gradients of a pass without exchange wait for one
};

}  // namespace booster
