// PipelineStages: a model cut into stages, one on each rank of a group, and batches that run
// through them in micro-batches. Plugins with a pipeline hold one.
//
// Each stage has only the values of its own layers (stage_parts.h). A batch gives the loss (the
// mean over its rows) and the gradients of a single process. Layers that use a batch as a whole are
// the exception: batch normalisation uses micro-batches. Micro-batches are rows of every tensor of
// the batch. All ranks of the group pass the same
// batches; the first stage uses the input and the last one the target. See docs/parallelism.md. For
// one thread.
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
  // Set one of the two: micro-batches per batch, or the maximum of rows of each.
  int num_microbatches = 0;
  int64_t microbatch_size = 0;
  int num_model_chunks = 1;  // pieces of the model on each stage; interleaved wants 2 or more
  // Set one of the two to define the cut: each piece's number of links, or its first link. Without
  // them, the cut minimises the cost of the costliest piece.
  std::vector<int> links_per_piece = {};
  std::vector<std::string> first_links = {};
  // Costs in any unit, such as measured_costs() (link_costs.h); empty: parameter counts. All ranks
  // use rank 0's.
  std::vector<double> link_costs = {};
  // Measures the costs instead: each link's time on the model's example_input(), as the mean over
  // the ranks. The input has microbatch_size rows, or a default.
  bool measures_links = false;
};

// Throws for options that do not fit together, or do not fit this number of stages.
void check_pipeline_options(const PipelineOptions& options, int stages);

class PipelineStages {
 public:
  // Makes a stage for each rank along the mesh's axis "pipeline"; with one rank, the whole model.
  // Throws for options that do not fit together.
  PipelineStages(const Mesh& mesh, PipelineOptions options);

  // Cuts the model. Call it once, on all ranks of the mesh, before optimizers keep state. All ranks
  // must hold the same values, because stages only drop the values of other stages. Throws for a
  // model with fewer links than pieces, for links that do not name all tensors, and for cuts that
  // do not fit.
  void shard(const Model& model, const Optimizers& optimizers);

  int stages() const { return group_.size(); }
  int stage() const { return group_.rank(); }
  const Group& group() const { return group_; }
  // Returns the cut: piece k has links [cut()[k], cut()[k + 1]) and is on stage k % stages().
  const StageCut& cut() const { return cut_; }
  // Returns true if this stage has the values of a tensor of the model, or of an optimizer's
  // parameter.
  bool is_here(const Tensor& tensor) const;
  // Returns true if any stage has this tensor.
  bool knows(const Tensor& tensor) const;
  // Returns true if this stage counts the tensor in a norm over all stages. The first stage counts
  // tied tensors.
  bool counts_here(const Tensor& tensor) const;

  // Implements Plugin::run. Sums gradients of tied parameters over the stages, under no_sync too.
  // Other axes may exchange gradients afterwards.
  Tensor run(const Tensors& input, const Tensors& target, const MicroStep& step);
  // Runs without gradients; throws in training, which needs run().
  Tensors forward(const Tensors& input, const MicroStep& step);
  void join(StateDict& state) const { parts_.join(state); }
  void split(StateDict& state) const { parts_.split(state); }

 private:
  friend class BatchRun;
  StageCut cut_of(Module& model) const;
  std::vector<double> measured(Module& model) const;
  void connect();
  int pieces() const { return static_cast<int>(cut_.size()) - 1; }
  int chunks() const { return stages() == 1 ? 1 : options_.num_model_chunks; }
  std::vector<int64_t> microbatches_of(const Tensors& input) const;
  PipelineSchedule schedule_for(int microbatches) const;
  // Runs the work of a batch. If it throws, this stage runs no more batches and informs the others.
  // Otherwise they would wait for it if the program catches the error.
  void unless_it_fails(const std::function<void()>& work);
  void check_usable() const;
  void settle_random() const;
  static Tensors joined(const std::vector<Tensors>& outputs);
  Tensors everybodys(const std::vector<Tensors>& outputs) const;

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
  bool failed_ = false;  // a pass ended midway: the state of its messages is unknown
};

}  // namespace booster
