// What a training costs when it is spread: memory of a rank, what it sends, how long a step takes.
//
// Times of collectives are those of rings (booster/plan/ring.h). Volumes are those of Rajbhandari
// et al., 2020 (ZeRO), Shoeybi et al., 2019 (tensors) and Jacobs et al., 2023 (tokens: all_to_all).
#pragma once

#include "booster/plan/machine.h"
#include "booster/plan/model_cost.h"
#include "parallel/layout.h"
#include "plugins/pipeline/schedule.h"

#include <string>
#include <vector>

namespace booster::plan {

struct Spread {
  Layout layout;
  PipelineStyle style = PipelineStyle::one_f_one_b;
  int microbatches = 1;           // of a batch, in a pipeline
  int chunks = 1;                 // pieces of the model on each stage, where they are interleaved
  bool recompute = false;         // blocks keep their inputs only, and run again in backward
  bool shards_on_a_node = false;  // of ZeRO 3: the ranks of each node have a copy of everything
  // Gradients leave during backward. Where processors compute, they do the messages too, and
  // nothing is hidden.
  bool overlaps = true;
};

// Bytes of a rank: of the first stage, which holds most.
struct MemoryPlan {
  double parameters = 0, copies = 0, gradients = 0, masters = 0, optimizer = 0, activations = 0,
         workspace = 0;
  double leaving = 0;           // of gradients on their way to other ranks, beside those
  bool gradients_stay = false;  // from step to step, in the buckets in which they leave
  // The larger of the two counts: activations when forward ends, or gradients when backward does.
  double peak() const;
};

struct Traffic {
  std::string axis;
  double gbytes = 0;          // 10^9, that a rank sends in a step
  double gbytes_between = 0;  // of them from node to node
  double exposed = 0;         // seconds that nothing else hides
};

struct Prediction {
  MemoryPlan memory;
  std::vector<Traffic> traffic;  // of axes with more than one rank
  double compute = 0;            // seconds: forward and backward
  double idle = 0;               // of the pipeline's bubble
  double update = 0;
  double loading = 0;  // of samples, where that takes the same cores
  double samples = 0;  // of all ranks, in a step

  double bubble() const { return idle / (compute + idle); }
  double communication() const;  // seconds that it adds
  double seconds() const { return compute + idle + update + loading + communication(); }
  double samples_per_second() const { return samples / seconds(); }
};

// The batch of `model` is that of each place on the data axis. The spread must fit: misfit() below.
Prediction predict(const ModelCost& model, const Cluster& cluster, const Spread& spread);
// Why this model cannot be spread so: "12 heads over 8 ranks"; "" if it can.
std::string misfit(const ModelCost& model, const Cluster& cluster, const Spread& spread);

// Seconds of kernels one after the other.
double seconds_of(const Works& works, const Machine& machine);

}  // namespace booster::plan
