// hybrid_parallel: data, pipeline, sequence and tensor parallelism on one mesh, with ZeRO along the
// data axis.
//
// Ranks of a tensor group work on parts of the same layers and see the same batch. Ranks of a
// sequence group work on other tokens of it. Ranks of a pipeline have different layers. Ranks of a
// data group hold the same part and see different batches. Another plugin works along the data
// axis: torch_ddp (zero_stage 0), low_level_zero (1, 2) or fsdp (3).
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
  int64_t dp_size = 0;           // ranks that see different data; 0: all that are left
  int64_t zero_stage = 0;        // 0 none, 1 optimizer state, 2 and gradients, 3 and parameters
  TensorPlan tensor_plan = {};   // empty: the model's own plan
  bool parallel_output = false;  // logits stay on their ranks unless code other than a loss
                                 // reads them: core/tensor/spread_columns.h
  std::string sequence_parallelism_mode = "none";  // plugins/sequence/sequence_parallel.h
  std::string sequence_blocks = "";  // pattern of the modules that work on some tokens;
                                     // empty: the model's known blocks
  // Pipeline: see plugins/pipeline/pipeline_stages.h.
  std::string pp_style = "1f1b";     // gpipe, 1f1b, interleaved, zero_bubble
  int64_t num_microbatches = 0;      // of a batch; without this and the next: one per stage
  int64_t microbatch_size = 0;       // rows of each, at most
  int64_t num_model_chunks = 1;      // pieces of the model on each stage; interleaved: 2 or more
  std::vector<int64_t> stages = {};  // links of each piece; empty: by parameter counts
  std::vector<std::string> stage_links = {};  // the same, by each piece's first link
  std::vector<double> link_costs = {};        // costs per link, to be balanced over pieces
  std::string stage_costs = "parameters";     // if none of these is given; "measured": times each
                                              // link, forward and backward
  bool recompute = false;     // blocks keep only their inputs, and run again in backward
  double bucket_cap_mb = 25;  // MiB of gradients per message along the data axis, at most
};

// Returns the mesh that the options want, with one rank along data unless dp_size is given, for any
// number of ranks. Throws for options that do not fit together.
Layout layout_of(const HybridParallelOptions& options);

class HybridParallelPlugin : public Plugin {
 public:
  explicit HybridParallelPlugin(HybridParallelOptions options = {});
  explicit HybridParallelPlugin(NoOptions) : HybridParallelPlugin() {}
  // Runs on the ranks of `group` instead of all ranks of the world.
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
    std::shared_ptr<Parameters> parameters;  // groups that are added later join them
    GradientAgreement agreement;
  };
  // Partitions layers and sequences.
  void cut(const Model& model);
  void share_norms(const Optimizers& optimizers);
  // Makes new groups throw for parameters that no stage knew when the model was boosted.
  void refuse_strangers(Optimizer optimizer) const;
  // As DataParallelPlugin::model_has_run; takes over that plugin's notes.
  void model_has_run(const MicroStep& step);
  // Checks gradients of parameters that each rank along tensor holds whole.
  void check_gradients(Stepped& stepped) const;
  // Gives ranks along sequence and tensor the same generator state, so that they drop the same
  // elements of the same activations.
  void align_random_numbers() const;
  // Notes the first link of each call, so that a stage that begins within a sequence region uses
  // the region's random stream.
  MicroStep in_streams(const MicroStep& step);

  HybridParallelOptions options_;
  Mesh mesh_;
  SequenceParallel sequence_;
  std::shared_ptr<TensorParallel> tensor_;
  std::shared_ptr<PipelineStages> stages_;  // null: one stage
  std::unique_ptr<DataParallelPlugin> data_;
  BatchAgreement batches_;
  bool exchanges_late_ = false;  // after the micro-batches of a pass
  int first_link_ = 0;           // of the next forward pass
  bool trains_ = true;           // some part of its model is in training mode
  Model model_;
  std::vector<Stepped> stepped_;
};

}  // namespace booster
