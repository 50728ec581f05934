// hybrid_parallel: data, pipeline, sequence and tensor parallelism on one mesh, with ZeRO along the
// data axis.
//
// Ranks of a tensor group work on parts of the same layers and see the same batch; ranks of a
// sequence group work on other tokens of it; ranks of a pipeline have different layers; ranks of a
// data group hold the same part and see different batches. What happens along the data axis is
// another plugin's: torch_ddp's (zero_stage 0), low_level_zero's (1, 2) or fsdp's (3).
#pragma once

#include "core/nn/no_options.h"
#include "plugins/batch_agreement.h"
#include "plugins/data_parallel.h"
#include "plugins/pipeline/pipeline_stages.h"
#include "plugins/sequence/sequence_parallel.h"
#include "plugins/tensor/gradient_agreement.h"
#include "plugins/tensor/tensor_parallel.h"

#include <memory>

namespace booster {

struct HybridParallelOptions {
  int64_t tp_size = 1;           // ranks that share layers
  int64_t pp_size = 1;           // ranks that have different layers, the stages of a pipeline
  int64_t sp_size = 1;           // ranks that share the tokens, in mode all_to_all or ring_attn
  int64_t dp_size = 0;           // ranks that see different data; 0: what is left
  int64_t zero_stage = 0;        // 0 none, 1 optimizer state, 2 and gradients, 3 and parameters
  TensorPlan tensor_plan = {};   // empty: the one that comes with the model
  bool parallel_output = false;  // logits stay on their ranks unless something but a loss reads
                                 // them: core/tensor/spread_columns.h
  std::string sequence_parallelism_mode = "none";  // plugins/sequence/sequence_parallel.h
  std::string sequence_blocks = "";  // pattern of the modules that work on some tokens; empty: the
                                     // blocks that come with the model
  // Of a pipeline: plugins/pipeline/pipeline_stages.h.
  std::string pp_style = "1f1b";     // gpipe, 1f1b, interleaved, zero_bubble
  int64_t num_microbatches = 0;      // of a batch; neither this nor the next: one for each stage
  int64_t microbatch_size = 0;       // rows of each, at most
  int64_t num_model_chunks = 1;      // pieces of the model on each stage; interleaved: 2 or more
  std::vector<int64_t> stages = {};  // links of each piece; none: by numbers of parameters
  std::vector<std::string> stage_links = {};  // the same, by the name of each one's first link
  std::vector<double> link_costs = {};        // the same, so that these come out even
  std::string stage_costs = "parameters";     // where none of these says it; "measured": links are
                                              // timed, forward and backward
  bool recompute = false;     // blocks keep their inputs only, and run again in backward
  double bucket_cap_mb = 25;  // MiB of gradients per message along the data axis, at most
};

// The mesh that the options want, with one rank along data unless dp_size is given, whatever ranks
// there are now. Error for options that do not go together.
Layout layout_of(const HybridParallelOptions& options);

class HybridParallelPlugin : public Plugin {
 public:
  explicit HybridParallelPlugin(HybridParallelOptions options = {});
  explicit HybridParallelPlugin(NoOptions) : HybridParallelPlugin() {}
  // On ranks other than all of the world's.
  HybridParallelPlugin(HybridParallelOptions options, const Group& group);
  HybridParallelPlugin(const HybridParallelPlugin& other);
  ~HybridParallelPlugin() override;

  const char* name() const override { return "hybrid_parallel"; }
  Mesh mesh() const override { return mesh_; }
  Layout layout() const override;
  void shard(const Model& model, const Optimizers& optimizers) override;
  void prepare(const Model& model, const Optimizers& optimizers) override;
  DataLoader prepare_dataloader(std::shared_ptr<const Dataset> dataset,
                                DataLoaderOptions options) const override;
  Tensor forward(const Tensor& input, const MicroStep& step) override;
  Tensor run(const Tensor& input, const Tensor& target, const MicroStep& step) override;
  void begin(Pass pass, bool sync) override;
  void end(Pass pass) override;
  void agree(Tensor& numbers, Among among) override;
  void sync_grads(const Optimizer& optimizer) override;
  void sync_params(const Optimizer& optimizer) override;
  void share_buffers() override;
  void hold_whole(bool whole) override;
  void join(StateDict& state) const override;
  void split(StateDict& state) const override;

 private:
  HybridParallelPlugin(HybridParallelOptions options, Mesh mesh);
  struct Stepped {
    Optimizer optimizer;
    std::shared_ptr<Parameters> parameters;  // those of groups that are added later too
    GradientAgreement agreement;
  };
  // Cuts layers and sequences.
  void cut(const Model& model);
  void share_norms(const Optimizers& optimizers);
  // Stages know where each parameter is from the start.
  void refuse_strangers(Optimizer optimizer) const;
  // As of the plugin along data, whose notes become this one's.
  void model_has_run(const MicroStep& step);
  // Of what ranks along tensor hold whole.
  void check_gradients(Stepped& stepped) const;
  // Ranks that drop the same elements of the same activations draw the same numbers.
  void align_random_numbers() const;
  // A stage that begins within a sequence region goes on in its stream.
  MicroStep in_streams(const MicroStep& step);

  HybridParallelOptions options_;
  Mesh mesh_;
  SequenceParallel sequence_;
  std::shared_ptr<TensorParallel> tensor_;
  std::shared_ptr<PipelineStages> stages_;  // null: one stage
  std::unique_ptr<DataParallelPlugin> data_;
  BatchAgreement batches_;
  bool exchanges_late_ = false;  // behind the microbatches of a pass
  int first_link_ = 0;           // of the forward pass that is about to begin
  bool trains_ = true;           // some part of the model that it is of
  Model model_;
  std::vector<Stepped> stepped_;
};

}  // namespace booster
