// torch_ddp: data parallelism. Every rank holds the whole model and sees its own share of the data;
// gradients are averaged in buckets while backward runs, so all ranks take the same step.
//
// Semantics follow torch's DistributedDataParallel: rank 0's parameters and buffers are everybody's
// start; buffers are sent again before each training forward; accumulation without sending is
// `no_sync`. Unlike there, any number of backward passes with and without `no_sync` may come before
// a step, each for any of the models that were boosted together, and a step that still finds
// gradients of this rank alone exchanges them first. A parameter that an optimizer steps without a
// gradient is an error that names it, unless `find_unused_parameters` is set; a parameter that is
// frozen is not asked for one.
#pragma once

#include "plugins/data_parallel.h"
#include "plugins/gradient_buckets.h"

#include <vector>

namespace booster {

struct TorchDDPOptions {
  double bucket_cap_mb = 25;             // MiB of gradients per message
  bool find_unused_parameters = false;   // parameters may take no part in a step
  bool broadcast_buffers = true;         // rank 0's buffers go to all before each training forward
  bool gradient_as_bucket_view = true;   // gradients live in the buckets; false: copied there
};

class TorchDDPPlugin : public DataParallelPlugin {
 public:
  explicit TorchDDPPlugin(TorchDDPOptions options = {});
  // On ranks other than all of the world's.
  TorchDDPPlugin(TorchDDPOptions options, Group group);
  TorchDDPPlugin(const TorchDDPPlugin& other);
  ~TorchDDPPlugin() override;

  const char* name() const override { return "torch_ddp"; }
  void prepare(const Model& model, const Optimizers& optimizers) override;
  void begin(Pass pass, bool sync) override;
  void end(Pass pass) override;
  void sync_grads(const Optimizer& optimizer) override;

 private:
  struct Watched {
    NamedTensor parameter;
    int hook;
  };

  // Packs the parameters that require a gradient and are in no bucket yet.
  void watch_new();
  void on_ready(int64_t parameter);
  void adopt_gradients_of_others();

  TorchDDPOptions options_;
  std::vector<Watched> watched_;
  GradientBuckets buckets_;
  bool exchanges_ = false;  // a backward pass is open whose gradients go to all
};

}  // namespace booster
