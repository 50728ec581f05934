#include "tools/plan/prediction.h"

#include "plugins/pipeline/schedule_timing.h"
#include "tools/plan/ring.h"

#include <fmt/format.h>

#include <algorithm>

namespace booster::plan {

namespace {

constexpr double bucket_bytes = 25 << 20;
constexpr double zero_bucket = 12 << 20;  // elements of gradients
constexpr double streams_between_layers = 5;

class Predictor {
 public:
  Predictor(const ModelCost& model, const Cluster& cluster, const Spread& spread)
      : model_(model), cluster_(cluster), spread_(spread), layout_(spread.layout) {
    const int model_ranks = layout_.tensor * layout_.sequence;
    tensor_ = ring_of(cluster, layout_.tensor, 1);
    sequence_ = ring_of(cluster, layout_.sequence, layout_.tensor);
    pipeline_ = ring_of(cluster, layout_.pipeline, model_ranks);
    data_ = ring_of(cluster, layout_.data, model_ranks * layout_.pipeline);
    // Sequence-parallel ranks hold the same parameters, like data-parallel ranks.
    data_.within *= sequence_.within;
    data_.nodes *= sequence_.nodes;
    shards_ = spread.shards_on_a_node ? data_.on_a_node() : data_;
    blocks_ = (model.blocks + layout_.pipeline - 1) / layout_.pipeline;
    parameters_ = share_of(model.ends) + blocks_ * share_of(model.block);
  }

  Prediction run() {
    result_.samples = static_cast<double>(model_.rows) * layout_.data;
    remember();
    compute();
    exchange_layers();
    exchange_tokens();
    exchange_gradients();
    const int sharers = layout_.zero_stage > 0 ? shards_.ranks() : 1;
    const double own = parameters_ / model_.parameters() / sharers;
    result_.loading = model_.loading * static_cast<double>(model_.rows);
    result_.update = seconds_of(grown(model_.update, own), cluster_.machine);
    return result_;
  }

 private:
  // Returns the parameters of a part on one tensor-parallel rank. Counts both ends on the first
  // stage, as if it also had the head.
  double share_of(const PartCost& part) const {
    return part.parameters - part.cut + part.cut / layout_.tensor;
  }

  void remember() {
    const BytesPerParameter& bytes = model_.bytes;
    const int n = shards_.ranks(), zero = n > 1 ? layout_.zero_stage : 0;
    MemoryPlan& memory = result_.memory;
    // The current unit and the next one are whole while they compute.
    const double unit = zero == 3 ? share_of(model_.block) : 0;
    memory.parameters =
        parameters_ * bytes.parameters / (zero == 3 ? n : 1) + 2 * unit * bytes.parameters;
    // Copies are kept whole from forward to backward, unless recomputation makes each unit's copies
    // again.
    memory.copies = (zero == 3 && spread_.recompute ? unit : parameters_) * bytes.copies;
    memory.gradients = parameters_ * bytes.gradients / (zero >= 2 ? n : 1);
    memory.masters = parameters_ * bytes.masters / (zero >= 1 ? n : 1);
    memory.optimizer = parameters_ * bytes.optimizer / (zero >= 1 ? n : 1);
    memory.leaving = leaving_bytes(zero, unit);
    memory.gradients_stay = zero == 0 && layout_.ranks() > 1;
    memory.activations = saved_bytes() * held_microbatches() / spread_.microbatches;
    memory.workspace = model_.workspace_bytes / layout_.sequence / spread_.microbatches;
    // Recomputation holds all activations of one block at a time.
    if (spread_.recompute) memory.workspace += block_saved_bytes() / spread_.microbatches;
  }

  // Returns the size of the gradients' communication buffers: a whole copy, and the rank's part of
  // the result.
  double leaving_bytes(int zero, double unit) const {
    if (zero == 0) return 0;
    if (zero == 3) return 2 * unit * model_.bytes.gradients;
    const double whole = parameters_ * model_.bytes.gradients, n = shards_.ranks();
    const double message = std::min(zero_bucket * model_.bytes.gradients, whole);
    return zero == 1 ? message + whole / n : 2 * message - message / n;
  }

  // Returns the bytes that a block's forward pass keeps on a rank. Tensor-parallel ranks split
  // activations inside layers that are cut. Those between layers (sums, normalisations, outputs of
  // projections) are whole on each rank.
  double block_saved_bytes() const {
    const double saved = model_.block.saved_bytes / layout_.sequence;
    const double between = std::min(saved, streams_between_layers * stream());
    return between + (saved - between) / layout_.tensor;
  }

  // Returns the bytes that a batch's forward pass keeps. Recomputed blocks keep only their inputs.
  double saved_bytes() const {
    return model_.ends.saved_bytes + blocks_ * (spread_.recompute ? stream() : block_saved_bytes());
  }

  // Returns the number of micro-batches whose activations the first stage holds at once.
  int held_microbatches() const {
    if (layout_.pipeline == 1) return spread_.microbatches;
    return (time_schedule(schedule()).peak_activations[0] + spread_.chunks - 1) / spread_.chunks;
  }
  PipelineSchedule schedule() const {
    return make_schedule(spread_.style, layout_.pipeline, spread_.microbatches, spread_.chunks);
  }

  // Returns the kernels' seconds for all micro-batches, on this rank's part.
  double part_seconds(const Works& ends, const Works& block) const {
    const double times = spread_.microbatches;
    const double share = 1 / times / layout_.tensor;  // of a kernel's work
    const Works all = grown(ends, share) * (times / layout_.pipeline) +
                      grown(block, share / layout_.sequence) * (times * blocks_);
    return seconds_of(all, cluster_.machine);
  }

  void compute() {
    const PartCost &ends = model_.ends, &block = model_.block;
    forward_ = part_seconds(ends.forward, block.forward);
    backward_ = part_seconds(ends.backward,
                             spread_.recompute ? block.forward + block.backward : block.backward);
    result_.compute = forward_ + backward_;
    if (layout_.pipeline == 1) return;
    // Each piece of each micro-batch is an action and sends its result.
    const double actions = static_cast<double>(spread_.microbatches) * spread_.chunks;
    const double bytes = stream() / spread_.microbatches;
    const double send = pipeline_.send(bytes);
    const ActionCosts costs = {.forward = forward_ / actions + send,
                               .input = backward_ / 2 / actions + send,
                               .weight = backward_ / 2 / actions};
    const double sending = 2 * actions * send;
    result_.idle = time_schedule(schedule(), costs).makespan - result_.compute - sending;
    const double gbytes = 2 * actions * bytes * 1e-9;
    result_.traffic.push_back({"pipeline", gbytes, pipeline_.nodes > 1 ? gbytes : 0, sending});
  }

  // Returns the bytes at one data-parallel position. All ranks of a tensor group have the same
  // tokens.
  double stream() const { return model_.stream_bytes / layout_.sequence; }

  // Adds `times` reduce-scatters or all-gathers of `bytes` bytes that nothing hides.
  void exchange(const char* axis, const Ring& ring, double times, double bytes) {
    result_.traffic.push_back({axis, times * ring.sent(bytes), times * ring.sent_between(bytes),
                               times * ring.half(bytes)});
  }

  // Adds two all-reduces per pass of a block, or the same volume as reduce-scatters and
  // all-gathers.
  void exchange_layers() {
    if (tensor_.ranks() == 1) return;
    const double passes = spread_.recompute ? 3 : 2;
    exchange("tensor", tensor_, 4 * passes * blocks_ * spread_.microbatches,
             stream() / spread_.microbatches);
  }

  // Around attention: sends queries, keys and values to the ranks of their heads, and the results
  // back.
  void exchange_tokens() {
    if (sequence_.ranks() == 1) return;
    const double passes = spread_.recompute ? 3 : 2;
    exchange("sequence", sequence_, 4 * passes * blocks_ * spread_.microbatches,
             stream() / layout_.tensor / spread_.microbatches);
  }

  // Returns the part of `seconds` that is exposed. Backward, or both passes, can hide all but the
  // last bucket.
  double exposed(double seconds, double hidden_by, double buckets) const {
    if (!spread_.overlaps || cluster_.machine.is_this_one) return seconds;
    const double last = seconds / buckets;
    return last + std::max(0.0, seconds - last - hidden_by);
  }

  void exchange_gradients() {
    if (data_.ranks() == 1) return;
    const double gradients = parameters_ * model_.bytes.gradients;
    const double weights = parameters_ * model_.bytes.parameters;
    const double buckets = std::max(1.0, gradients / bucket_bytes);
    double bytes = 2 * gradients, seconds = 0;  // of reduce-scatters and all-gathers
    if (layout_.zero_stage == 0) {
      seconds = exposed(data_.all_reduce(gradients), backward_, buckets);
    } else if (layout_.zero_stage < 3) {
      bytes = gradients + weights;
      seconds = exposed(data_.half(gradients), backward_, buckets) + data_.half(weights);
    } else {
      exchange_parts(gradients, weights);
      return;
    }
    result_.traffic.push_back({"data", data_.sent(bytes), data_.sent_between(bytes), seconds});
  }

  // ZeRO 3: parameters are gathered for each pass. If each node has a full copy, the parts of the
  // gradients are also summed between nodes.
  void exchange_parts(double gradients, double weights) {
    const double bytes = gradients + 2 * weights, part = 2 * gradients / shards_.ranks();
    const Ring copies = spread_.shards_on_a_node ? data_.over_nodes() : Ring();
    const double seconds = shards_.half(bytes) + copies.half(part);
    result_.traffic.push_back({"data", shards_.sent(bytes) + copies.sent(part),
                               shards_.sent_between(bytes) + copies.sent_between(part),
                               exposed(seconds, forward_ + backward_, std::max(1, blocks_))});
  }

  const ModelCost& model_;
  const Cluster& cluster_;
  const Spread& spread_;
  const Layout layout_;
  Ring tensor_, sequence_, pipeline_;
  Ring data_;              // ranks with the same parameters
  Ring shards_;            // ranks that ZeRO shards over
  int blocks_ = 0;         // per stage
  double parameters_ = 0;  // per rank, before ZeRO
  double forward_ = 0, backward_ = 0;
  Prediction result_;
};

}  // namespace

double MemoryPlan::peak() const {
  const double forward = activations + (gradients_stay ? gradients : 0);
  return parameters + copies + masters + optimizer + workspace +
         std::max(forward, gradients + leaving);
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
    const double product =
        work.gflop > 0 && rate != machine.gflops_per_s.end() ? work.gflop / rate->second : 0;
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
  if (model.tokens % layout.sequence != 0)
    return fmt::format("{} tokens over {} ranks", model.tokens, layout.sequence);
  const int pieces = layout.pipeline * spread.chunks;
  if (cut && model.blocks < pieces)
    return fmt::format("{} blocks over {} {}", model.blocks, pieces,
                       spread.chunks > 1 ? "pieces" : "stages");
  const bool apart = cluster.nodes > 1 && cluster.per_node > 1 && layout.is_data_alone();
  if (spread.shards_on_a_node && (layout.zero_stage != 3 || !apart))
    return "shards within each node, which need ZeRO 3, only data parallelism, and nodes of "
           "several ranks";
  if (model.rows % spread.microbatches != 0)
    return fmt::format("{} samples in {} microbatches", model.rows, spread.microbatches);
  return "";
}

Prediction predict(const ModelCost& model, const Cluster& cluster, const Spread& spread) {
  return Predictor(model, cluster, spread).run();
}

}  // namespace booster::plan
