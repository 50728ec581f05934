#include "booster/plan/prediction.h"

#include "plugins/pipeline/schedule_timing.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace booster::plan {

namespace {

constexpr double bucket_bytes = 25 << 20;

// The ranks that share something, and the wire between those that are farthest apart.
struct Ring {
  int ranks = 1;
  Wire wire;

  double latency() const {
    return std::min<double>(ranks - 1, 2 * std::log2(std::max(ranks, 1))) * wire.seconds;
  }
  // Reduce-scatter or all-gather of so many bytes in all.
  double half(double bytes) const {
    if (ranks == 1) return 0;
    return (ranks - 1.0) / ranks * bytes * 1e-9 / wire.gbytes_per_s + latency();
  }
  double all_reduce(double bytes) const { return 2 * half(bytes); }
  double sent(double bytes) const { return (ranks - 1.0) / ranks * bytes * 1e-9; }  // by half()
};

// Ranks lie as in axes_of(): data outermost, then pipeline, sequence, tensor. From node to node a
// large message goes over the wires of all of the ring's members on a node at once.
Ring ring_of(const Cluster& cluster, int ranks, int ranks_within) {
  const bool one_node = cluster.nodes == 1 || ranks * ranks_within <= cluster.per_node;
  if (one_node) return {ranks, cluster.inside};
  const int on_a_node = std::max(1, cluster.per_node / ranks_within);
  Wire wire = cluster.between;
  wire.gbytes_per_s = std::min(wire.gbytes_per_s * on_a_node, cluster.inside.gbytes_per_s);
  return {ranks, wire};
}

class Predictor {
 public:
  Predictor(const ModelCost& model, const Cluster& cluster, const Spread& spread)
      : model_(model), cluster_(cluster), spread_(spread), layout_(spread.layout) {
    const int model_ranks = layout_.tensor * layout_.sequence;
    tensor_ = ring_of(cluster, model_ranks, 1);
    pipeline_ = ring_of(cluster, layout_.pipeline, model_ranks);
    data_ = ring_of(cluster, layout_.data, model_ranks * layout_.pipeline);
    blocks_ = (model.blocks + layout_.pipeline - 1) / layout_.pipeline;
    parameters_ = stage_parameters() / layout_.tensor;
  }

  Prediction run() {
    result_.samples = static_cast<double>(model_.rows) * layout_.data;
    remember();
    compute();
    exchange_layers();
    exchange_gradients();
    const int sharers = layout_.zero_stage > 0 ? data_.ranks : 1;
    const double own = parameters_ / model_.parameters() / sharers;
    result_.update = seconds_of(model_.update * own, cluster_.machine);
    return result_;
  }

 private:
  // The ends count on one stage: on the first, as if the head were there too.
  double stage_parameters() const {
    return model_.ends.parameters + blocks_ * model_.block.parameters;
  }

  void remember() {
    const BytesPerParameter& bytes = model_.bytes;
    const int n = data_.ranks, zero = layout_.zero_stage;
    MemoryPlan& memory = result_.memory;
    const double block = model_.block.parameters / layout_.tensor;
    // A unit is whole while it computes, and the next one.
    const double gathered = zero == 3 && n > 1 ? 2 * block * bytes.parameters : 0;
    memory.parameters = parameters_ * bytes.parameters / (zero == 3 ? n : 1) + gathered;
    memory.copies = parameters_ * bytes.copies / (zero == 3 ? n : 1);
    memory.gradients = parameters_ * bytes.gradients / (zero >= 2 ? n : 1);
    memory.masters = parameters_ * bytes.masters / (zero >= 1 ? n : 1);
    memory.optimizer = parameters_ * bytes.optimizer / (zero >= 1 ? n : 1);
    if (n > 1) memory.workspace += 2 * std::min(bucket_bytes, parameters_ * bytes.gradients);
    const int parts = layout_.tensor * layout_.sequence;
    const double batch = (model_.ends.saved_bytes + blocks_ * model_.block.saved_bytes) / parts;
    memory.activations = batch * held_microbatches() / spread_.microbatches;
    memory.workspace += model_.workspace_bytes / parts / spread_.microbatches;
  }

  // Whose activations the first stage holds at once.
  int held_microbatches() const {
    if (layout_.pipeline == 1) return spread_.microbatches;
    return (time_schedule(schedule()).peak_activations[0] + spread_.chunks - 1) / spread_.chunks;
  }
  PipelineSchedule schedule() const {
    return make_schedule(spread_.style, layout_.pipeline, spread_.microbatches, spread_.chunks);
  }

  double part_seconds(Works PartCost::*pass) const {
    const Works all = model_.ends.*pass * (1.0 / layout_.pipeline) +
                      model_.block.*pass * static_cast<double>(blocks_);
    return seconds_of(all * (1.0 / (layout_.tensor * layout_.sequence)), cluster_.machine);
  }

  void compute() {
    forward_ = part_seconds(&PartCost::forward);
    backward_ = part_seconds(&PartCost::backward);
    result_.compute = forward_ + backward_;
    if (layout_.pipeline == 1) return;
    // Each piece of each microbatch is an action, and what it gives is sent.
    const double actions = static_cast<double>(spread_.microbatches) * spread_.chunks;
    const double gbytes = stream() / spread_.microbatches * 1e-9;
    const double send = gbytes / pipeline_.wire.gbytes_per_s + pipeline_.wire.seconds;
    const ActionCosts costs = {.forward = forward_ / actions + send,
                               .input = backward_ / 2 / actions + send,
                               .weight = backward_ / 2 / actions};
    const double sending = 2 * actions * send;
    result_.idle = time_schedule(schedule(), costs).makespan - result_.compute - sending;
    result_.traffic.push_back({"pipeline", 2 * actions * gbytes, pipeline_.wire, sending});
  }

  // Of a place on the data axis; each rank of a tensor group has all of it.
  double stream() const { return model_.stream_bytes; }

  // Two all-reduces in each pass of a block, or as much in halves.
  void exchange_layers() {
    if (tensor_.ranks == 1) return;
    const double times = 4.0 * blocks_ * spread_.microbatches;
    const double bytes = stream() / spread_.microbatches;
    result_.traffic.push_back({"tensor", times * 2 * tensor_.sent(bytes), tensor_.wire,
                               times * tensor_.all_reduce(bytes)});
  }

  // What backward, or both passes, can hide, except for the last bucket.
  static double exposed(double seconds, double hidden_by, double buckets) {
    const double last = seconds / buckets;
    return last + std::max(0.0, seconds - last - hidden_by);
  }

  void exchange_gradients() {
    if (data_.ranks == 1) return;
    const double gradients = parameters_ * model_.bytes.gradients;
    const double weights = parameters_ * model_.bytes.parameters;
    const double buckets = std::max(1.0, gradients / bucket_bytes);
    double sent = 2 * data_.sent(gradients), seconds = 0;
    if (layout_.zero_stage == 0) {
      seconds = exposed(data_.all_reduce(gradients), backward_, buckets);
    } else if (layout_.zero_stage < 3) {
      sent = data_.sent(gradients) + data_.sent(weights);
      seconds = exposed(data_.half(gradients), backward_, buckets) + data_.half(weights);
    } else {
      sent = data_.sent(gradients) + 2 * data_.sent(weights);
      const double units = std::max(1, blocks_);
      seconds = exposed(data_.half(gradients) + 2 * data_.half(weights), forward_ + backward_,
                        units);
    }
    result_.traffic.push_back({"data", sent, data_.wire, seconds});
  }

  const ModelCost& model_;
  const Cluster& cluster_;
  const Spread& spread_;
  const Layout layout_;
  Ring tensor_, pipeline_, data_;
  int blocks_ = 0;            // of a stage
  double parameters_ = 0;     // of a rank, before ZeRO
  double forward_ = 0, backward_ = 0;
  Prediction result_;
};

}  // namespace

double MemoryPlan::peak() const {
  return parameters + copies + masters + optimizer + workspace + std::max(gradients, activations);
}

double Prediction::communication() const {
  double seconds = 0;
  for (const Traffic& one : traffic) seconds += one.exposed;
  return seconds;
}

double seconds_of(const Works& works, const Machine& machine) {
  double seconds = 0;
  for (const auto& [kind, work] : works) {
    if (machine.is_this_one) {
      seconds += work.seconds;
      continue;
    }
    const auto rate = machine.gflops_per_s.find(kind.substr(0, kind.find(' ')));
    const double product = work.gflop > 0 && rate != machine.gflops_per_s.end()
                               ? work.gflop / rate->second
                               : 0;
    seconds += std::max(product, work.gbytes / machine.gbytes_per_s);
    seconds += work.calls * machine.seconds_per_call;
  }
  return seconds;
}

std::string misfit(const ModelCost& model, const Cluster& cluster, const Spread& spread) {
  const Layout& layout = spread.layout;
  if (layout.ranks() != cluster.ranks())
    return fmt::format("{} ranks in a layout of {}", cluster.ranks(), layout.ranks());
  const bool cut = layout.tensor * layout.sequence * layout.pipeline > 1;
  if (cut && model.blocks == 0) return "a model without blocks, which cannot be cut";
  if (model.heads % (layout.tensor * layout.sequence) != 0)
    return fmt::format("{} heads over {} ranks", model.heads, layout.tensor * layout.sequence);
  if (model.blocks > 0 && model.blocks < layout.pipeline)
    return fmt::format("{} blocks over {} stages", model.blocks, layout.pipeline);
  if (model.rows % spread.microbatches != 0)
    return fmt::format("{} samples in {} microbatches", model.rows, spread.microbatches);
  return "";
}

Prediction predict(const ModelCost& model, const Cluster& cluster, const Spread& spread) {
  return Predictor(model, cluster, spread).run();
}

}  // namespace booster::plan
