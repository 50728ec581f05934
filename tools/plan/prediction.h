// Predicts the cost of a distributed training: memory per rank, data sent, time of a step.
//
// Times of collectives assume rings (tools/plan/ring.h). Volumes are from Rajbhandari et
// al., 2020 (ZeRO), Shoeybi et al., 2019 (tensor parallelism) and Jacobs et al., 2023 (sequence
// parallelism: all_to_all).
#pragma once

#include "parallel/mesh.h"
#include "plugins/pipeline/schedule.h"
#include "tools/plan/machine.h"
#include "tools/plan/model_cost.h"

#include <string>
#include <vector>

namespace booster::plan {

struct Spread {
  Layout layout;
  PipelineStyle style = PipelineStyle::one_f_one_b;
  int microbatches = 1;           // per batch, in a pipeline
  int chunks = 1;                 // pieces of the model per stage, if interleaved
  bool recompute = false;         // blocks keep only their inputs and run again in backward
  bool shards_on_a_node = false;  // ZeRO 3 shards within a node; each node holds a full copy
  // Gradients are sent during backward. If CPUs compute, they also do the communication, so nothing
  // overlaps.
  bool overlaps = true;
};

// Bytes per rank, for the first stage, which holds most.
struct MemoryPlan {
  double parameters = 0, copies = 0, gradients = 0, masters = 0, optimizer = 0, activations = 0,
         workspace = 0;
  double leaving = 0;           // buffers of gradients being sent, in addition to `gradients`
  bool gradients_stay = false;  // in their communication buckets, between steps too
  // Returns the larger of two sums: activations at the end of forward, or gradients at the end of
  // backward.
  double peak() const;
};

struct Traffic {
  std::string axis;
  double gbytes = 0;          // 10^9, sent by a rank per step
  double gbytes_between = 0;  // of these, sent between nodes
  double exposed = 0;         // seconds that no computation hides
};

struct Prediction {
  MemoryPlan memory;
  std::vector<Traffic> traffic;  // of axes with more than one rank
  double compute = 0;            // seconds: forward and backward
  double idle = 0;               // in the pipeline's bubble
  double update = 0;
  double loading = 0;  // loading samples, if it uses the same cores
  double samples = 0;  // of all ranks, per step

  double bubble() const { return idle / (compute + idle); }
  double communication() const;  // seconds added to the step
  double seconds() const { return compute + idle + update + loading + communication(); }
  double samples_per_second() const { return samples / seconds(); }
};

// Predicts the cost. The batch of `model` is the batch of each data-parallel position. The spread
// must fit: see misfit() below.
Prediction predict(const ModelCost& model, const Cluster& cluster, const Spread& spread);
// Returns why the layout does not suit the model, "12 heads over 8 ranks", or "".
std::string misfit(const ModelCost& model, const Cluster& cluster, const Spread& spread);

// Returns the time of these kernels run one after the other.
double seconds_of(const Works& works, const Machine& machine);

}  // namespace booster::plan
