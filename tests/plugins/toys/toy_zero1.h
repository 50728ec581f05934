// Minimal ZeRO stage 1: how a plugin outside the library shards optimizer state.
//
// Every rank has the whole model and sees its own share of the data. Each parameter is cut into one
// range per rank. A rank steps its own range, keeps masters and moments only for it, and sends the
// result to the others. For one thread.
#pragma once

#include "booster/booster.h"

namespace booster::toys {

class ToyZero1 : public Plugin {
 public:
  explicit ToyZero1(const Group& world) : mesh_(world, {{"data", -1}}) { zero_stage_ = 1; }

  const char* name() const override { return "toy_zero1"; }
  Mesh mesh() const override { return mesh_; }
  void shard(const Model& model, const Optimizers& optimizers) override;
  DataLoader prepare_dataloader(std::shared_ptr<const Dataset> dataset,
                                DataLoaderOptions options) const override;
  PassScope begin(const PassStart& start) override;
  void agree(Tensor& numbers, Among among) override;
  void sync_grads(const Optimizer&) override { exchange(); }
  void sync_params(const Optimizers& stepped) override;
  void join(StateDict& state) const override;
  void split(StateDict& state) const override;

 private:
  struct Sharded {
    NamedTensor parameter;
    Tensor before = {};      // averaged gradient, kept while passes accumulate this rank's own
    bool has_local = false;  // the parameter's gradient is local to this rank
  };

  void end_backward(bool sync);
  void exchange();
  // Returns the parameter whose optimizer state these values are; undefined if they are not
  // optimizer state.
  Tensor kept_for(const NamedTensor& held) const;

  Mesh mesh_;
  std::vector<Sharded> all_;
};

}  // namespace booster::toys
