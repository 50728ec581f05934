// What the stages of ZeRO share: data parallelism that keeps optimizer state once.
//
// Each rank updates its part of every parameter (plugins/parameters/rank_parts.h) and keeps
// moments, masters and compensations of that part alone. Gradients are summed by reduce-scatter in
// buckets while backward runs, and from then on `grad()` of a parameter is this rank's part of the
// mean, flat. Norms, clips and checkpoints are those of one process. What becomes of the parameters
// between steps is the derived plugin's.
#pragma once

#include "plugins/data_parallel.h"
#include "plugins/gradients/sharded_gradients.h"

#include <memory>
#include <string>
#include <vector>

namespace booster {

class ShardedStatePlugin : public DataParallelPlugin {
 public:
  ~ShardedStatePlugin() override;

  void shard(const Model& model, const Optimizers& optimizers) override;
  void prepare(const Model& model, const Optimizers& optimizers) override;
  void begin(Pass pass, bool sync) override;
  void end(Pass pass) override;
  void sync_grads(const Optimizer& optimizer) override;
  // Gathers the parameters that every rank keeps whole.
  void sync_params(const Optimizer& optimizer) override;
  void hold_whole(bool whole) override { holds_ += whole ? 1 : -1; }
  void join(StateDict& state) const override;
  void split(StateDict& state) const override;

 protected:
  struct Options {
    ShardedGradientOptions gradients;
    int shard_size = 0;         // ranks that have one copy of everything among them; 0: all
    bool gathers_late = false;  // each parameter arrives when something first uses it
    bool cpu_offload = false;   // optimizers keep their state on the host, and step there
  };
  ShardedStatePlugin(Mesh mesh, const Options& options);
  ShardedStatePlugin(const ShardedStatePlugin& other);

  // Somebody wants whole parameters outside of passes.
  bool holds_whole() const { return holds_ > 0; }
  // The ranks among which everything is cut.
  const Group& shards() const { return shards_; }
  // Which of these parameters' gradients may share messages, in about the order in which backward
  // completes the last of each.
  virtual std::vector<Parameters> message_groups(const Parameters& parameters) const {
    return {parameters};
  }

 private:
  struct Watched {
    Tensor parameter;
    int hook;
  };
  // Parameters of one message, on their way from all ranks.
  struct Gathering {
    PackedParts packed;
    Tensor all;
    Work work;
    Group group;  // lives as long as somebody waits
  };

  void offload(const Optimizers& optimizers);
  // Owns this rank's part of each parameter that the optimizer has, and of those that join it.
  void own(Optimizer optimizer);
  void watch_new();
  void watch(const Parameters& parameters);
  // Those of which a step may have changed parts, as they share messages.
  std::vector<std::vector<Tensor>> messages(const Optimizer& optimizer) const;
  // Sends this rank's parts of parameters of one dtype.
  std::shared_ptr<const Gathering> gather(const std::vector<Tensor>& parameters,
                                          OperationTag tag) const;
  static void receive(const std::shared_ptr<const Gathering>& gathering,
                      const std::vector<Tensor>& parameters, bool late);
  // The parameter for which an optimizer keeps this; undefined: something else, or one number.
  Tensor kept_for(const NamedTensor& held) const;

  Options options_;
  Group shards_;
  Group gathers_;  // the same ranks; what a forward pass sends does not wait behind late gathers
  ShardedGradients gradients_;
  std::vector<Watched> watched_;
  std::vector<Work> on_their_way_;
  int holds_ = 0;
};

// Elements of a message, from an option in units of 2^20. Error, begun by `option`, if it is not
// > 0.
int64_t message_elements(const char* option, double size_in_m);

}  // namespace booster
