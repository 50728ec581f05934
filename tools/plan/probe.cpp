#include "tools/plan/probe.h"

#include "booster/booster.h"
#include "booster/config/registry.h"
#include "booster/config/tables/optimizers.h"
#include "booster/profile/profiler.h"
#include "core/autograd/functions.h"
#include "core/nn/functional.h"
#include "core/nn/joined_traits.h"
#include "core/nn/module_traits.h"
#include "core/tensor/memory/allocator.h"
#include "core/tensor/random/random.h"
#include "platform/threads.h"
#include "platform/trace.h"
#include "plugins/single.h"
#include "plugins/tensor/planned_layers.h"

#include <algorithm>
#include <memory>
#include <optional>

namespace booster::plan {

namespace {

constexpr int warm_up_steps = 2, blocks_of_deep = 4;
constexpr size_t fewest_turns = 5, most_turns = 41;
constexpr double seconds_of_turns = 4;

// The cost of one training; linear combinations give the cost of a model with more blocks.
struct Tried {
  PartCost part = {};
  BytesPerParameter kept = {0, 0, 0, 0, 0};  // in bytes of all parameters
  double peak = 0;                           // bytes
  Works update = {};
};

PartCost combined(const PartCost& a, const PartCost& b, double factor) {
  return {a.parameters + b.parameters * factor, a.cut + b.cut * factor,
          a.forward + b.forward * factor, a.backward + b.backward * factor,
          a.saved_bytes + b.saved_bytes * factor};
}

// Returns a + b * factor.
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

Tried share(const Tried& all, double parts) { return combined({}, all, 1 / parts); }

// Returns the shape of an input for the step, from the model's example.
Shape input_shape(const Module& model, const ModuleTraits& traits, const TriedStep& size) {
  const Tensor example = model.example_input(size.rows);
  check(example.defined(),
        "plan: a {} has no example_input(); want one that shows the model's input", model.kind());
  check(traits.token_dimension < example.ndim(),
        "plan: token_dimension in the traits() of a {}: out of range; got {}, want less than {}, "
        "the dimensions of its example_input()",
        model.kind(), traits.token_dimension, example.ndim());
  Shape shape = example.shape();
  if (size.tokens > 0 && traits.token_dimension >= 0)
    shape[static_cast<size_t>(traits.token_dimension)] = size.tokens;
  return shape;
}

// Returns values of the shape that the model reads.
Tensor drawn_input(const Module& model, const ModuleTraits& traits, const TriedStep& size) {
  const Shape shape = input_shape(model, traits, size);
  const DType dtype = model.example_input(1).dtype();
  return is_floating(dtype) ? uniform(shape, -1, 1, {.dtype = dtype})
                            : zeros(shape, {.dtype = dtype});
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

// Adds the kernels of a step to the passes. Time between kernels is distributed over them.
void add_work(const Profiler& profiler, Tried& tried) {
  double busy = 0;
  for (const ProfileRow& row : profiler.rows())
    if (row.on_main_thread) busy += row.seconds;
  const double stretch = profiler.seconds() / busy;
  for (const ProfileRow& row : profiler.rows()) {
    if (!row.on_main_thread) continue;
    const bool updates = row.phase == "step" || row.phase == "zero_grad" || row.phase == "clip";
    Works& works = row.phase == "backward" ? tried.part.backward
                   : updates               ? tried.update
                                           : tried.part.forward;
    const Works one = {
        {row.gflop > 0 ? row.dtype : row.dtype + " elementwise",
         {row.gflop, row.gbytes, static_cast<double>(row.calls), row.seconds * stretch}}};
    works = works + one;
  }
}

// Returns the number of parameter elements that tensor-parallel ranks would split; 0 if the model
// has no tensor plan.
double cut_parameters(const Model& model) {
  int64_t count = 0;
  for (const PlannedLayer& layer :
       planned_layers(joined_traits(model.module()).tensor_plan, model.module())) {
    count += layer.weight().numel();
    const Tensor bias = layer.bias();
    if (bias.defined() && layer.plan.style == SplitStyle::column) count += bias.numel();
  }
  return static_cast<double>(count);
}

// The dtype and shape that blocks work on.
struct Stream {
  int64_t heads = 1, tokens = 1, features = 0;
};

Stream stream_of(Module& model, const ModuleTraits& traits, const Shape& input) {
  Stream stream = {.features = traits.features};
  if (traits.tokens > 0)
    stream.tokens = traits.tokens;
  else if (traits.token_dimension >= 0)
    stream.tokens = input[static_cast<size_t>(traits.token_dimension)];
  for (const auto& [name, module] : model.named_modules())
    stream.heads = std::max(stream.heads, module->attention_heads());
  return stream;
}

// A training of such a model. Several may exist; their steps run one at a time.
class Trial {
 public:
  Trial(const Config& config, const OptionValues& model_options, const TriedStep& size)
      : size_(size),
        before_{.kept = kept_bytes(), .peak = live_bytes()},
        booster_({.plugin = SinglePlugin({.on_every_rank = true}),
                  .mixed_precision = Choice<Precision>([&config] {
                    return precision_registry().make(config.options("booster.mixed_precision"));
                  })}) {
    const Model model = model_registry().make(model_options);
    const ModuleTraits traits = joined_traits(model.module());
    input_ = drawn_input(model.module(), traits, size);
    stream_ = stream_of(model.module(), traits, input_.shape());
    result_.part.cut = cut_parameters(model);
    boosted_.emplace(booster_.boost(model, make_optimizer(config, model)));
    result_.part.parameters = static_cast<double>(model->parameter_count());
    for (int i = 0; i < warm_up_steps; ++i) step();
    reset_peak_bytes();
    step();
    result_.peak = static_cast<double>(allocator_stats().peak_bytes) - before_.peak;
  }

  // Runs one more step, which is timed.
  void take_turn() {
    Profiler& profiler = *turns_.emplace_back(std::make_unique<Profiler>());
    step();
    profiler.stop();
  }

  const Stream& stream() const { return stream_; }

  // Returns the cost with the times of the median step.
  Tried result() {
    const auto middle = turns_.begin() + static_cast<ptrdiff_t>(turns_.size() / 2);
    std::ranges::nth_element(turns_, middle, {}, [](const auto& turn) { return turn->seconds(); });
    Tried result = result_;
    add_work(**middle, result);
    return result;
  }

 private:
  void step() {
    auto& [net, opt] = *boosted_;
    opt.zero_grad();
    const double start = live_bytes();
    const Tensor output = net(input_);
    const Tensor scores = output.ndim() > 2 ? flatten(output, 0, -2) : output;
    if (!target_.defined()) target_ = zeros({scores.size(0)}, {.dtype = DType::i64});
    const Tensor loss = cross_entropy(scores, target_, {.label_smoothing = size_.label_smoothing});
    result_.part.saved_bytes = live_bytes() - start;
    booster_.backward(loss, opt);
    // Only before the timed turns: later, other trials hold memory too.
    if (turns_.empty()) result_.kept = combined({.kept = kept_bytes()}, before_, -1).kept;
    if (size_.clip_grad_norm > 0) opt.clip_grad_by_norm(size_.clip_grad_norm);
    opt.step();
  }

  TriedStep size_;
  Tried before_;  // bytes in use before
  Booster booster_;
  Tensor input_, target_;
  Stream stream_;
  std::optional<BoostedPair> boosted_;
  Tried result_;
  std::vector<std::unique_ptr<Profiler>> turns_;
};

// Runs the trials in turns, so that other load on the machine affects all of them equally.
void take_turns(std::vector<Trial*> trials, bool timed) {
  const int64_t start = kernels::trace_clock();
  const auto spent = [&] { return static_cast<double>(kernels::trace_clock() - start) * 1e-9; };
  for (size_t turn = 0; turn < most_turns; ++turn) {
    if (turn > 0 && !timed) return;
    if (turn >= fewest_turns && spent() > seconds_of_turns) return;
    for (Trial* trial : trials) trial->take_turn();
  }
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

OptionValues with(const OptionValues& model, const std::string& option, int value) {
  nlohmann::json values = model.values();
  values[option] = value;
  return OptionValues(values);
}

}  // namespace

ModelCost probe(const Config& config, const TriedStep& step, int threads) {
  const ThreadLimit limit(threads);
  const OptionValues model = config.options("model");
  const std::string depth = model_registry().find(model.get<std::string>("name")).depth_option;
  if (depth.empty()) {
    Trial trial(config, model, step);
    take_turns({&trial}, step.timed);
    const Tried whole = trial.result();
    return {.rows = step.rows,
            .ends = whole.part,
            .workspace_bytes = workspace(whole),
            .bytes = per_parameter(whole),
            .update = whole.update};
  }
  const int blocks = model.get<int>(depth), more = std::clamp(blocks, 2, blocks_of_deep) - 1;
  Trial shallow(config, with(model, depth, 1), step);
  Trial deep(config, with(model, depth, 1 + more), step);
  take_turns({&shallow, &deep}, step.timed);
  const Tried one = shallow.result();
  const Tried block = share(combined(deep.result(), one, -1), more);
  const Tried whole = combined(one, block, blocks - 1);
  const BytesPerParameter bytes = per_parameter(whole);
  const Stream& stream = shallow.stream();
  check(stream.features > 0,
        "plan: {} has the option {} for its depth, but its traits() lack features; want the "
        "features that its blocks pass on",
        model.get<std::string>("name"), depth);
  const double sent = static_cast<double>(step.rows * stream.tokens * stream.features) *
                      (bytes.masters > 0 ? bytes.parameters : 4);
  return {.rows = step.rows,
          .ends = combined(one.part, block.part, -1),
          .block = block.part,
          .blocks = blocks,
          .heads = stream.heads,
          .tokens = stream.tokens,
          .stream_bytes = sent,
          .workspace_bytes = workspace(whole),
          .bytes = bytes,
          .update = whole.update};
}

}  // namespace booster::plan
