// PipelineStages: a model cut into stages, one on each rank of a group, and batches that run
// through them in microbatches. What a plugin of the library holds that has a pipeline.
//
// Each stage has the numbers of its own layers alone (stage_parts.h). A batch gives what one
// process gives: the loss is the mean over its rows, and gradients are those of that mean, but for
// layers that look at a batch as a whole (batch normalisation sees microbatches). All ranks of the
// group give the same batches; the first stage uses the input and the last one the target. See
// docs/parallelism.md. For one thread.
#pragma once

#include "parallel/mesh.h"
#include "plugins/interface/plugin.h"
#include "plugins/pipeline/microbatches.h"
#include "plugins/pipeline/schedule.h"
#include "plugins/pipeline/stage_link.h"
#include "plugins/pipeline/stage_parts.h"
#include "plugins/pipeline/tied_gradients.h"

#include <functional>
#include <string>
#include <vector>

namespace booster {

struct PipelineOptions {
  PipelineStyle style = PipelineStyle::one_f_one_b;
  // One of the two: how many microbatches a batch has, or how many rows each of them at most.
  int num_microbatches = 0;
  int64_t microbatch_size = 0;
  int num_model_chunks = 1;  // pieces of the model on each stage; interleaved wants 2 or more
  // Where the model is cut, piece by piece: numbers of links, or names of first links. Neither:
  // so that the costliest piece costs as little as possible.
  std::vector<int> links_per_piece = {};
  std::vector<std::string> first_links = {};
  // In any unit, such as measured_costs() (link_costs.h); none: numbers of parameters. Rank 0's
  // are everybody's.
  std::vector<double> link_costs = {};
  // The same, of what each link takes here and now on the model's example_input(), the mean over
  // the ranks: of microbatch_size rows, or some.
  bool measures_links = false;
};

// Error for options that do not go together, with each other or with so many stages.
void check_pipeline_options(const PipelineOptions& options, int stages);

class PipelineStages {
 public:
  // A stage for each rank along the mesh's axis "pipeline"; the whole model where there is one.
  // Errors: options that do not go together.
  PipelineStages(const Mesh& mesh, PipelineOptions options);

  // Once, before anything is kept for parameters; all ranks of the mesh call it. Their numbers are
  // the same on all: stages only drop those of others. Errors: a model that has fewer links than
  // there are pieces, links that do not name all tensors, cuts that do not fit.
  void shard(const Model& model, const Optimizers& optimizers);

  int stages() const { return group_.size(); }
  int stage() const { return group_.rank(); }
  const Group& group() const { return group_; }
  // Links of piece k are [cut()[k], cut()[k + 1]); it is on stage k % stages().
  const StageCut& cut() const { return cut_; }
  // Whether this stage has the numbers of a tensor of the model, or a parameter of the optimizers.
  bool is_here(const Tensor& tensor) const;
  // True if some stage has this tensor.
  bool knows(const Tensor& tensor) const;
  // Whether it is this stage's to count in a norm over all stages: of tied ones the first has it.
  bool counts_here(const Tensor& tensor) const;

  // As of Plugin. When run() returns, gradients of tied parameters are the sum over the stages,
  // also under no_sync; other axes may exchange gradients from then on.
  Tensor run(const Tensor& input, const Tensor& target, const MicroStep& step);
  // Without gradients: error in training, which wants run().
  Tensor forward(const Tensor& input, const MicroStep& step);
  void join(StateDict& state) const { parts_.join(state); }
  void split(StateDict& state) const { parts_.split(state); }

 private:
  friend class BatchRun;
  StageCut cut_of(Module& model) const;
  std::vector<double> measured(Module& model) const;
  void connect();
  int pieces() const { return static_cast<int>(cut_.size()) - 1; }
  int chunks() const { return stages() == 1 ? 1 : options_.num_model_chunks; }
  std::vector<int64_t> microbatches_of(const Tensor& input) const;
  PipelineSchedule schedule_for(int microbatches) const;
  // Does the work of a batch. Where it throws, this stage does no more batches, and tells the
  // others, who would wait for it if the program catches that.
  void unless_it_fails(const std::function<void()>& work);
  void check_usable() const;
  void settle_random() const;
  Tensor everybodys(const std::vector<Tensor>& outputs) const;

  PipelineOptions options_;
  Group world_, group_;
  Model model_;
  Device device_;  // of the model's parameters
  StageCut cut_;
  StageParts parts_;
  TiedGradients tied_;
  ActivationSender to_next_;
  ActivationReceiver from_previous_;
  Outbox to_previous_;  // gradients
  GradientReceiver from_next_;
  bool failed_ = false;  // a pass ended in the middle: what is under way is unknown
};

}  // namespace booster
