// torch_ddp: data parallelism. Every rank holds the whole model and sees its own share of the data.
// Gradients are averaged in buckets while backward runs, so all ranks take the same step.
//
// Semantics follow torch's DistributedDataParallel. All ranks start from rank 0's parameters and
// buffers and evaluate with rank 0's buffers. `no_sync` accumulates without sending. Unlike in
// torch, rank 0 sends buffers after each step, not before each forward pass. An evaluation thus
// sends nothing, and one rank may evaluate alone. Any number of backward passes with and without
// `no_sync` may precede a step, each for any of the models that were boosted together. A step first
// exchanges gradients that are still local. Stepping a parameter without a gradient throws an error
// that names it, unless `find_unused_parameters` or `static_graph` is set. A frozen parameter needs
// no gradient.
//
// `static_graph` promises that each step uses the same parameters as the first, on each rank. (In
// torch, a different set is undefined behaviour; here it throws an error that names a parameter.)
// Unused parameters then need no search in each step, and buckets fill in the order in which
// gradients arrive. A step here is the work between two exchanges.
//
// `join` is for data that ranks cannot share evenly. prepare_dataloader gives each sample to one
// rank, once per epoch, and the last step equals a single process's step on the joined batch. In
// torch's Join, ranks without data answer the other ranks' collectives. Here they continue the loop
// with a sample that does not count (DataLoaderOptions::join). Schedules, clips, checkpoints and
// the program's own collectives thus stay the same on all ranks. torch divides by the number of
// ranks, or of ranks with data. Here each sample counts equally.
//
// `comm_dtype` halves the bytes sent, as torch's fp16_compress_hook and bf16_compress_hook do;
// plugins/gradients/gradient_buckets.h states how it rounds. A gradient that fp16 cannot hold
// becomes infinite on all ranks, and loss scalers skip the step.
#pragma once

#include "plugins/built_in.h"
#include "plugins/data_parallel.h"
#include "plugins/gradients/gradient_buckets.h"
#include "plugins/gradients/static_graph.h"

#include <string>
#include <vector>

namespace booster {

class TorchDdp : public DataParallelPlugin {
 public:
  explicit TorchDdp(TorchDDPOptions options = {});
  // Runs on a part of the world's ranks, or along one axis of several.
  TorchDdp(TorchDDPOptions options, Mesh mesh);
  TorchDdp(const TorchDdp& other);
  ~TorchDdp() override;

  const char* name() const override { return "torch_ddp"; }
  void prepare(const Model& model, const Optimizers& optimizers) override;
  DataLoader prepare_dataloader(std::shared_ptr<const Dataset> dataset,
                                DataLoaderOptions options) const override;
  PassScope begin(const PassStart& start) override;
  void sync_grads(const Optimizer& optimizer) override;

 private:
  // Packs the parameters that require a gradient and are not in a bucket yet.
  void watch_new();
  void on_ready(int64_t parameter);
  void end_backward();
  void adopt_gradients_of_others();
  void end_static_exchange();
  void sync_static();

  TorchDDPOptions options_;
  Parameters watched_;
  std::vector<int> hooks_;  // of each watched parameter
  GradientBuckets buckets_;
  StaticGraph graph_;
  bool repacks_ = false;      // the graph is known, but the buckets do not follow it yet
  bool exchanges_ = false;    // a backward pass with an exchange is open
  bool keeps_local_ = false;  // gradients of a pass without exchange wait for one
};

}  // namespace booster
