#include "booster/plan/probe.h"

#include "booster/booster.h"
#include "booster/config/tables/models.h"
#include "booster/config/tables/optimizers.h"
#include "booster/profile/profiler.h"
#include "core/autograd/functions.h"
#include "core/nn/losses.h"
#include "core/tensor/memory/allocator.h"
#include "core/tensor/random.h"
#include "kernels/system/threads.h"
#include "plugins/single.h"

#include <algorithm>

namespace booster::plan {

namespace {

constexpr int warm_up_steps = 2, measured_steps = 4;
constexpr const char* depth_options[] = {"depth", "n_layer"};

// What one training cost; sums and multiples of it are those of a model with other blocks.
struct Tried {
  PartCost part = {};
  BytesPerParameter kept = {};  // in bytes of all parameters
  double peak = 0;              // bytes
  Works update = {};
};

PartCost combined(const PartCost& a, const PartCost& b, double factor) {
  return {a.parameters + b.parameters * factor, a.forward + b.forward * factor,
          a.backward + b.backward * factor, a.saved_bytes + b.saved_bytes * factor};
}

// a + b * factor
Tried combined(const Tried& a, const Tried& b, double factor) {
  const auto sum = [&](double BytesPerParameter::*what) {
    return a.kept.*what + b.kept.*what * factor;
  };
  using Kept = BytesPerParameter;
  return {.part = combined(a.part, b.part, factor),
          .kept = {sum(&Kept::parameters), sum(&Kept::copies), sum(&Kept::gradients),
                   sum(&Kept::masters), sum(&Kept::optimizer)},
          .peak = a.peak + b.peak * factor,
          .update = a.update + b.update * factor};
}

struct Batch {
  Tensor input, target;
};

// Numbers of the shape that a model with these options reads.
Batch drawn_batch(const OptionValues& model, const TriedBatch& size) {
  const auto ids = [](Shape shape) { return zeros(std::move(shape), {.dtype = DType::i64}); };
  const Tensor labels = ids({size.rows});
  if (model.has("vocab_size")) {
    const int64_t tokens = size.tokens > 0 ? size.tokens : model.get<int64_t>("n_positions");
    return {ids({size.rows, tokens}), ids({size.rows * tokens})};
  }
  if (model.has("sizes"))
    return {uniform({size.rows, model.get<std::vector<int64_t>>("sizes").front()}, -1, 1), labels};
  const int64_t side = model.has("img_size") ? model.get<int64_t>("img_size") : 32;
  const int64_t channels = model.has("in_chans") ? model.get<int64_t>("in_chans") : 3;
  return {uniform({size.rows, channels, side, side}, -1, 1), labels};
}

Tensor loss_of(const Tensor& output, const Tensor& target) {
  return cross_entropy(output.ndim() == 3 ? flatten(output, 0, 1) : output, target);
}

double live_bytes() { return static_cast<double>(allocator_stats().live_bytes); }

BytesPerParameter kept_bytes() {
  const TaggedBytes all = tagged_bytes();
  const auto of = [&](MemoryTag tag) {
    return static_cast<double>(all[static_cast<size_t>(tag)].live);
  };
  return {of(MemoryTag::parameters), of(MemoryTag::copies), of(MemoryTag::gradients),
          of(MemoryTag::masters), of(MemoryTag::optimizer_state)};
}

// Adds the kernels of a step to the passes; what passes between kernels is theirs, too.
void add_work(const Profiler& profiler, Tried& tried) {
  double busy = 0;
  for (const ProfileRow& row : profiler.rows())
    if (row.on_main_thread) busy += row.seconds;
  const double stretch = profiler.seconds() / busy;
  for (const ProfileRow& row : profiler.rows()) {
    if (!row.on_main_thread) continue;
    Works& works = row.phase == "backward" ? tried.part.backward
                   : row.phase == "step" || row.phase == "zero_grad" ? tried.update
                                                                     : tried.part.forward;
    const Works one = {{row.gflop > 0 ? row.dtype : row.dtype + " elementwise",
                        {row.gflop, row.gbytes, static_cast<double>(row.calls),
                         row.seconds * stretch}}};
    works = works + one;
  }
}

Tried tried(const Config& config, const OptionValues& model_options, const TriedBatch& size) {
  const double before = live_bytes();
  const Model model = entry_of(model_entries(), model_options).make(model_options);
  const Optimizer optimizer = make_optimizer(config, model);
  Booster booster({.plugin = SinglePlugin({.on_every_rank = true}),
                         .mixed_precision = Choice<Precision>([&config] {
                           return precision_registry().make(
                               config.options("booster.mixed_precision"));
                         })});
  auto [net, opt] = booster.boost(model, optimizer);
  const Batch batch = drawn_batch(model_options, size);
  Tried result = {.part = {.parameters = static_cast<double>(model->parameter_count())}};
  const auto step = [&, &net = net, &opt = opt] {
    opt.zero_grad();
    const double start = live_bytes();
    const Tensor loss = loss_of(net(batch.input), batch.target);
    result.part.saved_bytes = live_bytes() - start;
    booster.backward(loss, opt);
    result.kept = kept_bytes();
    opt.step();
  };
  for (int i = 0; i < warm_up_steps; ++i) step();
  reset_peak_bytes();
  std::unique_ptr<Profiler> fastest;
  for (int i = 0; i < measured_steps; ++i) {
    auto profiler = std::make_unique<Profiler>();
    step();
    profiler->stop();
    if (!fastest || profiler->seconds() < fastest->seconds()) fastest = std::move(profiler);
  }
  result.peak = static_cast<double>(allocator_stats().peak_bytes) - before;
  add_work(*fastest, result);
  return result;
}

class ThreadLimit {
 public:
  explicit ThreadLimit(int threads) : before_(kernels::thread_count()) {
    kernels::set_thread_count(threads);
  }
  ~ThreadLimit() { kernels::set_thread_count(before_); }
  ThreadLimit(const ThreadLimit&) = delete;

 private:
  int before_;
};

// What goes from block to block, in the dtype of the parameters.
double stream_bytes(const OptionValues& model, const TriedBatch& size, double bytes) {
  if (!model.has("embed_dim") && !model.has("n_embd")) return 0;
  const bool is_text = model.has("n_embd");
  int64_t tokens = size.tokens > 0 || !is_text ? size.tokens : model.get<int64_t>("n_positions");
  if (!is_text) {
    const int64_t patches = model.get<int64_t>("img_size") / model.get<int64_t>("patch_size");
    tokens = patches * patches + 1;
  }
  return static_cast<double>(size.rows * tokens *
                             model.get<int64_t>(is_text ? "n_embd" : "embed_dim")) * bytes;
}

BytesPerParameter per_parameter(const Tried& whole) {
  const double n = whole.part.parameters;
  const BytesPerParameter& all = whole.kept;
  return {all.parameters / n, all.copies / n, all.gradients / n, all.masters / n,
          all.optimizer / n};
}

double workspace(const Tried& whole) {
  const BytesPerParameter& kept = whole.kept;
  const double counted = kept.parameters + kept.copies + kept.masters + kept.optimizer +
                         std::max(kept.gradients, whole.part.saved_bytes);
  return std::max(0.0, whole.peak - counted);
}

OptionValues with(const OptionValues& model, const char* option, int value) {
  nlohmann::json values = model.values();
  values[option] = value;
  return OptionValues(values);
}

}  // namespace

ModelCost probe(const Config& config, const TriedBatch& size, int threads) {
  const ThreadLimit limit(threads);
  const OptionValues model = config.options("model");
  const char* depth = nullptr;
  for (const char* option : depth_options)
    if (model.has(option)) depth = option;
  if (!depth) {
    const Tried whole = tried(config, model, size);
    return {.rows = size.rows, .ends = whole.part, .workspace_bytes = workspace(whole),
            .bytes = per_parameter(whole), .update = whole.update};
  }
  const Tried one = tried(config, with(model, depth, 1), size);
  const Tried two = tried(config, with(model, depth, 2), size);
  const Tried block = combined(two, one, -1);
  const int blocks = model.get<int>(depth);
  const Tried whole = combined(one, block, blocks - 1);
  const BytesPerParameter bytes = per_parameter(whole);
  return {.rows = size.rows,
          .ends = combined(one.part, block.part, -1),
          .block = block.part,
          .blocks = blocks,
          .heads = model.get<int64_t>(model.has("n_head") ? "n_head" : "num_heads"),
          .stream_bytes = stream_bytes(model, size, bytes.masters > 0 ? bytes.parameters : 4),
          .workspace_bytes = workspace(whole),
          .bytes = bytes,
          .update = whole.update};
}

}  // namespace booster::plan
