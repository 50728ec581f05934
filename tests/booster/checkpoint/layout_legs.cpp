#include "tests/booster/checkpoint/layout_legs.h"

#include <fmt/format.h>

#include <algorithm>

namespace booster::layouts {

namespace {

constexpr int64_t classes = 3, hidden = 7;                // of the linear layers
constexpr int64_t tokens = 4, vocabulary = 7, heads = 4;  // of GPT-2

// Returns a model with 5 links, or GPT-2 with 4, whose first and last link share a weight.
Model model_of(const Kind& kind) {
  if (!kind.is_gpt2)
    return Sequential{Linear(features, hidden), LayerNorm(hidden), Linear(hidden, 8), Tanh(),
                      Linear(8, classes)};
  return models::gpt2("gpt2", {.vocab_size = vocabulary,
                               .n_positions = tokens,
                               .embd_pdrop = 0,
                               .attn_pdrop = 0,
                               .resid_pdrop = 0,
                               .n_embd = 16,
                               .n_layer = 2,
                               .n_head = heads});
}

// Output features that ranks cannot divide evenly are gathered.
const TensorPlan& plan_of_linear_layers() {
  static const TensorPlan plan = {
      {"0", {.gather = true}}, {"2", {}}, {"4", {.style = SplitStyle::row}}};
  return plan;
}

HybridParallelOptions drawn_mesh(Dice& dice, const Kind& kind, int64_t ranks) {
  HybridParallelOptions options;
  do {
    options.tp_size = dice.of<int64_t>({1, 2, 4});
    options.pp_size = dice.of<int64_t>({1, 2, 3, 4});
    options.sp_size = kind.is_gpt2 ? dice.of<int64_t>({1, 2, 4}) : 1;
  } while (ranks % (options.tp_size * options.pp_size * options.sp_size) != 0);
  options.zero_stage = dice.below(options.pp_size > 1 ? 3 : 4);
  options.parallel_output = dice.below(2);
  options.recompute = dice.below(4) == 0;
  if (!kind.is_gpt2) options.tensor_plan = plan_of_linear_layers();
  if (options.sp_size > 1)
    options.sequence_parallelism_mode = dice.of<std::string>({"all_to_all", "ring_attn"});
  else if (kind.is_gpt2 && options.tp_size > 1 && dice.below(2))
    options.sequence_parallelism_mode = "split_gather";
  options.pp_style = dice.of<std::string>({"gpipe", "1f1b", "zero_bubble", "interleaved"});
  if (options.pp_size == 1 || (options.pp_size > 2 && options.pp_style == "interleaved"))
    options.pp_style = "1f1b";
  if (options.pp_style == "interleaved") options.num_model_chunks = 2;
  options.bucket_cap_mb = 1e-4;
  return options;
}

Tensor input_of(bool is_gpt2, const Tensor& rows) {
  if (!is_gpt2) return rows;
  return untracked::cast((narrow(rows, 1, 0, tokens).detach() + 1) * (vocabulary / 2.0),
                         DType::i64);
}

Tensor target_of(bool is_gpt2, const Tensor& labels) {
  if (!is_gpt2) return labels;
  std::vector<int64_t> all;
  for (const int64_t label : labels.to_vector<int64_t>())
    for (int64_t i = 0; i < tokens; ++i) all.push_back((label + i) % vocabulary);
  return from_vector(all, {labels.size(0), tokens});
}

Criterion criterion_of(bool is_gpt2) {
  if (!is_gpt2) return CrossEntropyLoss();
  return Criterion("cross entropy of tokens", [](const Tensor& y, const Tensor& t) {
    return cross_entropy(reshape(y, {-1, vocabulary}), reshape(t, {-1}));
  });
}

Choice<Precision> precision_of(const std::string& strategy) {
  if (strategy == "fp16") return FP16TorchMixedPrecision({.init_scale = 64, .growth_interval = 3});
  if (strategy == "bf16 masters") return BF16MixedPrecision({.style = "cast"});
  return strategy;
}

Optimizer optimizer_of(const std::string& rule, const Model& model) {
  // eps is large: otherwise gradients that are mere rounding would move weights as far as others.
  constexpr double lr = 0.02, eps = 1e-3, decay = 0.01;
  if (rule == "sgd") return SGD(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  if (rule == "rmsprop")
    return RMSprop(model.parameters(),
                   {.lr = lr / 10, .eps = eps, .momentum = 0.5, .centered = true});
  if (rule == "lamb")
    return LAMB(model.parameters(), {.lr = lr, .eps = eps, .weight_decay = decay});
  return AdamW(model.parameters(), {.lr = lr, .eps = eps, .weight_decay = decay});
}

Training make(const Kind& kind, const Choice<Plugin>& plugin, int64_t batch_size,
              bool by_pipeline = false) {
  manual_seed(7);
  Booster booster({.plugin = plugin, .mixed_precision = precision_of(kind.strategy)});
  Model model = model_of(kind);
  Optimizer optimizer = optimizer_of(kind.optimizer, model);
  auto loader = booster.prepare_dataloader(
      TensorDataset(data_input(), data_target()),
      {.batch_size = batch_size, .shuffle = true, .workers = 0, .seed = order_seed});
  Boosted boosted =
      booster.boost(model, optimizer, criterion_of(kind.is_gpt2), loader, ConstantLR(optimizer));
  return {std::move(booster), boosted, kind.is_gpt2, by_pipeline};
}

}  // namespace

Kind drawn_kind(Dice& dice) {
  return {dice.of<const char*>({"fp32", "bf16 masters", "fp16"}),
          dice.of<const char*>({"adamw", "sgd", "lamb", "rmsprop"}), dice.below(2) == 0};
}

std::string Leg::name() const {
  std::string name = plugin + (late ? " late" : "");
  const auto add = [&](const char* axis, int64_t size, const std::string& how) {
    if (size > 1) name += fmt::format(" {} {} {}", axis, size, how);
  };
  const std::string mode = options.sequence_parallelism_mode;
  add("tp", options.tp_size, mode == "split_gather" ? mode : "");
  add("pp", options.pp_size, options.pp_style);
  add("sp", options.sp_size, mode);
  if (options.zero_stage > 0) name += fmt::format(" zero {}", options.zero_stage);
  if (options.parallel_output) name += " parallel_output";
  if (options.recompute) name += " recompute";
  return fmt::format("{} x {} of {}, {} steps{}{}", name, ranks.size(), batch_size, steps,
                     async ? " async" : "", shards ? " shards" : "");
}

Leg drawn_leg(Dice& dice, const Kind& kind) {
  Leg leg;
  leg.plugin = dice.of<std::string>(
      {"single", "torch_ddp", "zero 1", "zero 2", "fsdp", "hybrid", "hybrid", "hybrid", "hybrid"});
  leg.ranks = {0, 1, 2, 3};
  std::ranges::shuffle(leg.ranks, dice.engine);
  leg.ranks.resize(leg.plugin == "single" ? 1 : static_cast<size_t>(1 + dice.below(4)));
  leg.late = leg.plugin.starts_with("zero") && dice.below(2);
  if (leg.plugin == "hybrid")
    leg.options = drawn_mesh(dice, kind, static_cast<int64_t>(leg.ranks.size()));
  leg.batch_size = dice.of<int64_t>({12, 24, 36}) / leg.shares();
  leg.steps = 1 + dice.below(5);
  leg.async = dice.below(2), leg.shards = dice.below(2);
  return leg;
}

Tensor data_input() {
  Generator generator(5);
  return uniform({samples, features}, -1, 1, {}, generator);
}

Tensor data_target() {
  std::vector<int64_t> labels;
  for (int64_t i = 0; i < samples; ++i) labels.push_back(i * i % classes);
  return from_vector(labels, {samples});
}

Shape output_shape(const Kind& kind) {
  return kind.is_gpt2 ? Shape{samples, tokens, vocabulary} : Shape{samples, classes};
}

Tensor Training::outputs_of_all() {
  const NoGradGuard no_grad;
  return untracked::cast(boosted.model(input_of(is_gpt2, data_input())), DType::f32);
}

Tensor Training::outputs_with_averages() {
  const AveragedWeights weights = averaged_weights(boosted.optimizer, average);
  return outputs_of_all();
}

void Training::step(const Tensor& rows, const Tensor& labels) {
  auto& [net, opt, loss_fn, data, lr] = boosted;
  struct Batch {
    Tensor input, target;
  } const batch = {input_of(is_gpt2, rows), target_of(is_gpt2, labels)};
  opt.zero_grad();
  if (by_pipeline) {
    const Batch* at = &batch;
    booster.execute_pipeline(at, net, loss_fn, opt);
  } else {
    booster.backward(loss_fn(net(batch.input), batch.target), opt);
  }
  opt.clip_grad_by_norm(0.5);
  const StepReport report = opt.step();
  average.update(report);
  lr.step(report);
}

void Training::steps(int count) {
  while (count > 0)
    for (auto& batch : boosted.dataloader) {
      step(batch.image, batch.label);
      if (--count == 0) return;
    }
}

Training alone(const Kind& kind, int64_t batch_size) {
  return make(kind, SinglePlugin({.on_every_rank = true}), batch_size);
}

Training spread(const Kind& kind, const Leg& leg, const Group& group) {
  const int64_t stage = leg.plugin == "zero 2" ? 2 : 1;
  const double small = 20.0 / (1 << 20);  // gives several buckets
  if (leg.plugin == "torch_ddp") return make(kind, TorchDDPPlugin({}, group), leg.batch_size);
  if (leg.plugin == "fsdp") return make(kind, FsdpPlugin({}, group), leg.batch_size);
  if (leg.plugin == "single") return alone(kind, leg.batch_size);
  if (leg.plugin == "hybrid")
    return make(kind, HybridParallelPlugin(leg.options, group), leg.batch_size,
                leg.options.pp_size > 1);
  const LowLevelZeroOptions options = {
      .stage = stage, .reduce_bucket_size_in_m = small, .overlap_allgather = leg.late};
  return make(kind, LowLevelZeroPlugin(options, group), leg.batch_size);
}

}  // namespace booster::layouts
