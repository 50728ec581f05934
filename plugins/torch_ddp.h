// torch_ddp: data parallelism. Every rank holds the whole model and sees its own share of the data;
// gradients are averaged in buckets while backward runs, so all ranks take the same step.
//
// Semantics follow torch's DistributedDataParallel: rank 0's parameters and buffers are everybody's
// start; buffers are sent again before each training forward; accumulation without sending is
// `no_sync`. A parameter that got no gradient is an error that names it, unless
// `find_unused_parameters` is set.
#pragma once

#include "plugins/gradient_buckets.h"
#include "plugins/plugin.h"

#include <optional>

namespace booster {

struct TorchDDPOptions {
  double bucket_cap_mb = 25;             // MiB of gradients per message
  bool find_unused_parameters = false;   // parameters may take no part in a step
  bool broadcast_buffers = true;         // rank 0's buffers go to all before each training forward
  bool gradient_as_bucket_view = true;   // gradients live in the buckets; false: copied there
};

class TorchDDPPlugin : public Plugin {
 public:
  explicit TorchDDPPlugin(TorchDDPOptions options = {});
  // On ranks other than all of the world's.
  TorchDDPPlugin(TorchDDPOptions options, Group group);
  TorchDDPPlugin(const TorchDDPPlugin& other);
  ~TorchDDPPlugin() override;

  const char* name() const override { return "torch_ddp"; }
  Layout layout() const override;
  Group group() const override { return group_; }
  void prepare(const Model& model, const Optimizers& optimizers) override;
  DataLoader prepare_dataloader(std::shared_ptr<const Dataset> dataset,
                                DataLoaderOptions options) const override;
  void before_forward() override;
  void set_sync(bool sync) override { sync_ = sync; }
  void sync_grads() override;
  void agree(Tensor& numbers) override;

 private:
  void share_weights(const Optimizers& optimizers);
  void watch(int64_t parameter);
  void on_ready(int64_t parameter);
  void finish_unused();
  void check_none_missing() const;

  TorchDDPOptions options_;
  Group group_;
  Model model_;
  Parameters parameters_;
  std::vector<int> hooks_;
  std::optional<GradientBuckets> buckets_;
  bool sync_ = true;
  bool pass_open_ = false;  // a synchronised backward ran and sync_grads has not
};

}  // namespace booster
