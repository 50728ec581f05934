#include "plugins/hybrid_parallel.h"

#include "core/nn/attention_method.h"
#include "core/nn/joined_traits.h"
#include "core/tensor/random/random.h"
#include "core/tensor/token_layout.h"
#include "parallel/mesh.h"
#include "platform/copies.h"
#include "plugins/data_axis.h"
#include "plugins/gradients/rank_norms.h"
#include "plugins/parameters/wrapped_modules.h"

#include <algorithm>
#include <utility>

namespace booster {

namespace {

constexpr int64_t most_ranks = 4096;  // along an axis; their product is a number of 64 bits

// Makes a pipeline's options. Defaults: one micro-batch per stage, interleaved one per piece.
PipelineOptions pipeline_options(const HybridParallelOptions& options) {
  PipelineOptions pipeline = {.style = pipeline_style_named(options.pp_style),
                              .num_microbatches = static_cast<int>(options.num_microbatches),
                              .microbatch_size = options.microbatch_size,
                              .num_model_chunks = static_cast<int>(options.num_model_chunks),
                              .first_links = options.stage_links,
                              .link_costs = options.link_costs,
                              .measures_links = options.stage_costs == "measured"};
  for (const int64_t links : options.stages)
    pipeline.links_per_piece.push_back(static_cast<int>(links));
  if (pipeline.num_microbatches == 0 && pipeline.microbatch_size == 0)
    pipeline.num_microbatches = static_cast<int>(options.pp_size);
  return pipeline;
}

// Checks the options that become an int.
void check_counts(const HybridParallelOptions& options) {
  constexpr int64_t most = 1 << 20;
  const auto check_count = [most](const char* name, int64_t least, int64_t count) {
    check(least <= count && count <= most,
          "hybrid_parallel: {} is out of range; got {}, want {} to {}", name, count, least, most);
  };
  check_count("num_microbatches", 0, options.num_microbatches);
  check_count("num_model_chunks", 1, options.num_model_chunks);
  for (const int64_t links : options.stages) check_count("stages", 1, links);
}

void check_sizes(const HybridParallelOptions& options) {
  const std::pair<const char*, int64_t> sizes[] = {
      {"tp_size", options.tp_size}, {"pp_size", options.pp_size}, {"sp_size", options.sp_size}};
  for (const auto& [name, size] : sizes)
    check(1 <= size && size <= most_ranks,
          "hybrid_parallel: {} is out of range; got {}, want 1 to {}", name, size, most_ranks);
  check(0 <= options.dp_size && options.dp_size <= most_ranks,
        "hybrid_parallel: dp_size is out of range; got {}, want 0 to {}", options.dp_size,
        most_ranks);
}

void check_options(const HybridParallelOptions& options) {
  check_sizes(options);
  check_counts(options);
  check(options.stage_costs == "parameters" || options.stage_costs == "measured",
        "hybrid_parallel: unknown stage_costs; got {}{}", options.stage_costs,
        legal_names(options.stage_costs, {"parameters", "measured"}));
  check(options.pp_size == 1 || options.zero_stage < 3,
        "hybrid_parallel: a pipeline cannot shard parameters; got zero_stage {} with pp_size {}, "
        "want zero_stage 0, 1 or 2",
        options.zero_stage, options.pp_size);
  const SequenceMode mode = sequence_mode_named(options.sequence_parallelism_mode);
  check(options.sp_size == 1 || mode == SequenceMode::all_to_all || mode == SequenceMode::ring_attn,
        "hybrid_parallel: sp_size {} has no effect with sequence_parallelism_mode {}; want "
        "all_to_all, ring_attn, or tp_size (in split_gather the tensor ranks share tokens)",
        options.sp_size, options.sequence_parallelism_mode);
  if (options.pp_size > 1)
    check_pipeline_options(pipeline_options(options), static_cast<int>(options.pp_size));
}

}  // namespace

Layout layout_of(const HybridParallelOptions& options) {
  check_options(options);
  return {.data = static_cast<int>(std::max<int64_t>(options.dp_size, 1)),
          .tensor = static_cast<int>(options.tp_size),
          .pipeline = static_cast<int>(options.pp_size),
          .sequence = static_cast<int>(options.sp_size),
          .zero_stage = static_cast<int>(options.zero_stage)};
}

namespace {

std::vector<Axis> axes_for(const HybridParallelOptions& options, int ranks) {
  const int64_t wanted = layout_of(options).ranks();
  check(ranks > 1 || wanted == 1,
        "hybrid_parallel: its sizes need a multiple of {} ranks; got one process, want booster run "
        "--nproc_per_node {}",
        wanted, wanted);
  const int data = options.dp_size == 0 ? -1 : static_cast<int>(options.dp_size);
  return {{"data", data},
          {"pipeline", static_cast<int>(options.pp_size)},
          {"sequence", static_cast<int>(options.sp_size)},
          {"tensor", static_cast<int>(options.tp_size)}};
}

}  // namespace

HybridParallel::HybridParallel(HybridParallelOptions options)
    : HybridParallel(std::move(options), launch_from_env().group()) {}

HybridParallel::HybridParallel(HybridParallelOptions options, const Group& group)
    : HybridParallel(options, Mesh(group, axes_for(options, group.size()))) {}

HybridParallel::HybridParallel(HybridParallelOptions options, Mesh mesh)
    : options_(std::move(options)),
      mesh_(std::move(mesh)),
      sequence_(sequence_mode_named(options_.sequence_parallelism_mode), mesh_),
      tensor_(std::make_shared<TensorParallel>(mesh_.group("tensor"), options_.parallel_output)),
      data_(plugin_along_data(mesh_, options_.zero_stage, options_.bucket_cap_mb)),
      batches_(mesh_) {
  zero_stage_ = static_cast<int>(options_.zero_stage);
  if (options_.pp_size > 1)
    stages_ = std::make_shared<PipelineStages>(mesh_, pipeline_options(options_));
}

HybridParallel::HybridParallel(const HybridParallel& other)
    : HybridParallel(other.options_, other.mesh_) {
  check(!other.model_, "hybrid_parallel: already serves a model; want a new plugin object");
}

void HybridParallel::shard(const Model& model, const Optimizers& optimizers) {
  model_ = model;
  for (const Optimizer& optimizer : optimizers)
    check(mesh_.size("tensor") == 1 || !optimizer.needs_whole_parameters(),
          "hybrid_parallel: {} computes with whole parameters, but ranks cut layers; got tp_size "
          "{}, want 1, or another optimizer",
          optimizer.name(), mesh_.size("tensor"));
  share_numbers(model, optimizers, mesh_.world());
  std::vector<Module*> blocks;
  if (options_.recompute) blocks = modules_to_wrap(model.module(), {}, "");
  cut(model);
  if (stages_) stages_->shard(model, optimizers);
  if (stages_)
    for (const Optimizer& optimizer : optimizers) refuse_strangers(optimizer);
  data_->shard(model, optimizers);
  for (Module* block : blocks) block->set_recompute(true);  // after fsdp, which may set it too
  share_norms(optimizers);
}

void HybridParallel::refuse_strangers(Optimizer optimizer) const {
  optimizer.on_new_group([stages = stages_](Optimizer&, const Parameters& added) {
    for (const auto& [name, tensor] : added)
      check(stages->knows(tensor),
            "pipeline: parameter {} belonged to neither the model nor an optimizer when they were "
            "boosted, so no stage has it; want it in an optimizer before boost",
            name);
  });
}

void HybridParallel::share_norms(const Optimizers& optimizers) {
  for (Optimizer optimizer : optimizers) {
    stepped_.push_back({optimizer, std::make_shared<Parameters>(optimizer.parameters()),
                        GradientAgreement(mesh_)});
    const auto all = stepped_.back().parameters;
    optimizer.on_new_group([all](Optimizer&, const Parameters& added) {
      all->insert(all->end(), added.begin(), added.end());
    });
    HeldParameters held;
    held.all = all;
    held.layers = tensor_->group();
    held.is_apart = [tensor = tensor_](const Tensor& x) { return tensor->is_cut(x); };
    if (options_.zero_stage > 0) held.owners = mesh_.joint_group({"data", "sequence"});
    if (stages_) {
      held.counts_here = [stages = stages_](const Tensor& x) { return stages->counts_here(x); };
      held.stages = stages_->group();
    }
    optimizer.share_norms(share_over_mesh(std::move(held)));
  }
}

void HybridParallel::cut(const Model& model) {
  if (mesh_.size("tensor") * mesh_.size("sequence") == 1) return;
  TensorPlan plan = options_.tensor_plan;
  if (plan.empty()) plan = joined_traits(model.module()).tensor_plan;
  check(!plan.empty(),
        "hybrid_parallel: a {} has no tensor plan; want tensor_plan, which states how to cut its "
        "layers, or a plan in the model's traits()",
        model->kind());
  sequence_.choose(model, options_.sequence_blocks);
  tensor_->cut(model, plan,
               [this](const std::string& layer, LayerSplit::Result result, int64_t size) {
                 return sequence_.split_of(layer, result, size);
               });
  sequence_.connect(
      model, plan, [this](const Tensor& x) { return tensor_->is_cut(x) || tensor_->is_shared(x); });
}

void HybridParallel::prepare(const Model& model, const Optimizers& optimizers) {
  data_->prepare(model, optimizers);
}

DataLoader HybridParallel::prepare_dataloader(std::shared_ptr<const Dataset> dataset,
                                              DataLoaderOptions options) const {
  return data_->prepare_dataloader(std::move(dataset), std::move(options));
}

Tensors HybridParallel::forward(const Tensors& input, const MicroStep& step) {
  batches_.check_same(input);
  if (step.trains) data_->share_joined();
  Tensors y = stages_ ? stages_->forward(input, step) : Plugin::forward(input, step);
  model_has_run(step);
  return y;
}

Tensor HybridParallel::run(const Tensors& input, const Tensors& target, const MicroStep& step) {
  batches_.check_same(input, target);
  if (step.trains) data_->share_joined();
  const Tensor loss =
      stages_ ? stages_->run(input, target, step) : Plugin::run(input, target, step);
  model_has_run(step);
  return loss;
}

void HybridParallel::model_has_run(const MicroStep& step) {
  data_->model_has_run(step);
  for (std::string& note : data_->take_notes()) add_note(std::move(note));
}

// Begins a pass. A pipeline's gradients grow with each micro-batch, so they are exchanged along the
// data axis after the last one.
PassScope HybridParallel::begin(const PassStart& start) {
  const bool exchanges_late = stages_ && start.sync && start.pass == Pass::backward;
  PassScope scope({.end =
                       [this, exchanges_late, pass = start.pass] {
                         sequence_.end(pass);
                         if (!exchanges_late) return;
                         for (const Stepped& one : stepped_) sync_grads(one.optimizer);
                       },
                   .restore =
                       [stream = random_stream(), layout = token_layout()] {
                         set_random_stream(stream);
                         set_attention_method(
                             nullptr);  // blocks set it; none is set between passes
                         set_token_layout(layout);
                       }});
  set_random_stream(sequence_.begin(start.pass, start.first_link));
  set_attention_method(nullptr);
  if (start.pass == Pass::forward && start.trains) align_random_numbers();
  PassStart along_data = start;
  along_data.sync = start.sync && !exchanges_late;
  scope.add(data_->begin(along_data));
  return scope;
}

void HybridParallel::align_random_numbers() const {
  const Group ranks = mesh_.joint_group({"sequence", "tensor"});
  if (ranks.size() == 1) return;
  const RandomState mine = default_generator().state();
  std::vector<int64_t> state = {static_cast<int64_t>(mine.seed), static_cast<int64_t>(mine.offset)};
  ranks.broadcast(state);
  default_generator().set_state({static_cast<uint64_t>(state[0]), static_cast<uint64_t>(state[1])});
}

void HybridParallel::agree(Tensor& numbers, Among among) { data_->agree(numbers, among); }
void HybridParallel::sync_grads(const Optimizer& optimizer) {
  data_->sync_grads(optimizer);
  for (Stepped& one : stepped_)
    if (one.optimizer == optimizer) check_gradients(one);
}

void HybridParallel::check_gradients(Stepped& stepped) const {
  Parameters whole;
  for (const NamedTensor& parameter : *stepped.parameters)
    if (parameter.tensor.requires_grad() && !tensor_->is_cut(parameter.tensor))
      whole.push_back(parameter);
  stepped.agreement.check_same(whole);
}

void HybridParallel::sync_params(const Optimizers& stepped) { data_->sync_params(stepped); }
void HybridParallel::hold_whole(bool whole) { data_->hold_whole(whole); }

// Joins in three steps. The ranks along data join their shards on the first of them. The first
// ranks join parts into whole layers, and the first of these joins the stages.
void HybridParallel::join(StateDict& state) const {
  data_->join(state);
  if (mesh_.place("data") > 0 || mesh_.place("sequence") > 0) return;
  tensor_->join(state);
  if (stages_ && mesh_.place("tensor") == 0) stages_->join(state);
}

void HybridParallel::split(StateDict& state) const {
  tensor_->split(state);
  if (stages_) stages_->split(state);
  data_->split(state);
}

PluginMaker HybridParallelPlugin(HybridParallelOptions options) {
  return copies_of<Plugin>(HybridParallel(std::move(options)));
}
PluginMaker HybridParallelPlugin(HybridParallelOptions options, const Group& group) {
  return copies_of<Plugin>(HybridParallel(std::move(options), group));
}

}  // namespace booster
