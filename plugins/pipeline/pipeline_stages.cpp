#include "plugins/pipeline/pipeline_stages.h"

#include "core/autograd/functions.h"
#include "core/tensor/random/random.h"
#include "plugins/pipeline/batch_run.h"
#include "plugins/pipeline/link_costs.h"

#include <algorithm>

namespace booster {
namespace {

// Gives each stage its own random stream; otherwise layers of two stages would drop the same
// elements.
class StageRandom {
 public:
  explicit StageRandom(int stage) : before_(default_generator().state()) {
    constexpr uint64_t golden = 0x9E3779B97F4A7C15;  // 2^64 divided by the golden ratio
    default_generator().set_state(
        {before_.seed + golden * static_cast<uint64_t>(stage), before_.offset});
  }
  ~StageRandom() {
    default_generator().set_state({before_.seed, default_generator().state().offset});
  }
  StageRandom(const StageRandom&) = delete;
  StageRandom& operator=(const StageRandom&) = delete;

 private:
  RandomState before_;
};

}  // namespace

void check_pipeline_options(const PipelineOptions& options, int stages) {
  check((options.num_microbatches > 0) != (options.microbatch_size > 0) &&
            options.num_microbatches >= 0 && options.microbatch_size >= 0,
        "pipeline: want exactly one of num_microbatches and microbatch_size; got {} and {}",
        options.num_microbatches, options.microbatch_size);
  const bool interleaves = options.style == PipelineStyle::interleaved;
  check(interleaves ? options.num_model_chunks >= 2 : options.num_model_chunks == 1,
        "pipeline: {} needs {} of the model on each stage; got num_model_chunks = {}",
        name_of(options.style), interleaves ? "2 chunks or more" : "1 chunk",
        options.num_model_chunks);
  check(!interleaves || options.num_microbatches % stages == 0,
        "pipeline: interleaved stages need a multiple of {} microbatches; got {}", stages,
        options.num_microbatches);
  check(options.links_per_piece.empty() || options.first_links.empty(),
        "pipeline: got links_per_piece and first_links; want one of the two, or neither");
  check(!options.measures_links || (options.links_per_piece.empty() &&
                                    options.first_links.empty() && options.link_costs.empty()),
        "pipeline: measured costs exclude other cuts; got them with stages, names or costs of "
        "links; want one of them");
}

PipelineStages::PipelineStages(const Mesh& mesh, PipelineOptions options)
    : options_(std::move(options)), world_(mesh.world()), group_(mesh.group("pipeline")) {
  check_pipeline_options(options_, stages());
}

StageCut PipelineStages::cut_of(Module& model) const {
  const int links = model.link_count(), wanted = stages() * chunks();
  if (!options_.links_per_piece.empty())
    return cut_by_sizes(options_.links_per_piece, links, wanted);
  if (!options_.first_links.empty()) {
    std::vector<std::string> names;
    for (int i = 0; i < links; ++i) names.push_back(model.link(i).name);
    return cut_by_names(options_.first_links, names, wanted);
  }
  if (options_.measures_links) return cut_by_cost(measured(model), wanted);
  if (options_.link_costs.empty()) return cut_by_cost(parameter_costs(model), wanted);
  check(static_cast<int>(options_.link_costs.size()) == links,
        "pipeline: wrong number of costs; got {}, want {}, one for each link",
        options_.link_costs.size(), links);
  return cut_by_cost(options_.link_costs, wanted);
}

std::vector<double> PipelineStages::measured(Module& model) const {
  constexpr int64_t some_rows = 8;
  const Tensors input =
      model.example_inputs(options_.microbatch_size > 0 ? options_.microbatch_size : some_rows);
  check(!input.empty(),
        "pipeline: a {} has no example_input() to measure its links on; want one, or a cut by "
        "numbers of parameters or by hand",
        model.kind());
  const Parameters all = model.parameters();
  const auto to_model = [&](const Tensor& x) { return x.to(all[0].tensor.device()); };
  std::vector<double> costs = measured_costs(model, all.empty() ? input : input.map(to_model));
  world_.all_reduce(costs, CollectiveOp::mean);
  return costs;
}

void PipelineStages::shard(const Model& model, const Optimizers& optimizers) {
  check(!model_, "pipeline: already serves a model; want a new plugin object");
  cut_ = cut_of(model.module());
  world_.broadcast(cut_);  // measured costs differ from rank to rank
  model_ = model;
  const Parameters all = model.parameters();
  if (!all.empty()) device_ = all[0].tensor.device();
  parts_ = StageParts(model, optimizers, cut_, group_);
  tied_ = TiedGradients(parts_, group_);
  connect();
}

// Makes the groups of neighbours in ring order on every stage, so that no stage waits for a group
// that another makes later. With several pieces per stage, the last stage also sends to the first.
void PipelineStages::connect() {
  const int count = stages(), ways = chunks() > 1 ? count : count - 1;
  for (int from = 0; from < ways; ++from) {
    const int to = (from + 1) % count;
    if (stage() != from && stage() != to) continue;
    const Group onwards = group_.subgroup({from, to}), back = group_.subgroup({from, to});
    if (stage() == from) {
      to_next_ = ActivationSender(onwards, 1);
      from_next_ = GradientReceiver(back, 1);
    } else {
      from_previous_ = ActivationReceiver(onwards, 0, device_);
      to_previous_ = Outbox(back, 0);
    }
  }
}

bool PipelineStages::is_here(const Tensor& tensor) const {
  return std::ranges::binary_search(parts_.stages_of(tensor), stage());
}

bool PipelineStages::knows(const Tensor& tensor) const { return parts_.knows(tensor); }

bool PipelineStages::counts_here(const Tensor& tensor) const {
  return parts_.stages_of(tensor).front() == stage();
}

std::vector<int64_t> PipelineStages::microbatches_of(const Tensors& input) const {
  const bool interleaves = chunks() > 1;
  return cut_batch(input.rows("pipeline: input"), {.count = options_.num_microbatches,
                                                   .size = options_.microbatch_size,
                                                   .multiple_of = interleaves ? stages() : 1});
}

// Returns the schedule. Interleaving needs a multiple of the stages as the number of micro-batches;
// other batches are not interleaved.
PipelineSchedule PipelineStages::schedule_for(int microbatches) const {
  if (chunks() > 1 && microbatches % stages() != 0)
    return make_schedule(PipelineStyle::gpipe, stages(), microbatches, chunks());
  const bool one = options_.style == PipelineStyle::interleaved && chunks() == 1;
  return make_schedule(one ? PipelineStyle::one_f_one_b : options_.style, stages(), microbatches,
                       chunks());
}

void PipelineStages::unless_it_fails(const std::function<void()>& work) {
  failed_ = true;
  try {
    work();
  } catch (const std::exception& error) {
    group_.give_up(error.what());
    throw;
  }
  failed_ = false;
}

void PipelineStages::check_usable() const {
  check(static_cast<bool>(model_), "pipeline: it has no model yet; want shard() first");
  if (failed_)
    fail_run(
        "pipeline: an earlier batch failed midway, on this or another stage; want the ranks "
        "restarted");
}

// Continues all generators after the stage that drew most, since programs may rely on equal
// generators.
void PipelineStages::settle_random() const {
  RandomState state = default_generator().state();
  std::vector<int64_t> offset = {static_cast<int64_t>(state.offset)};
  group_.all_reduce(offset, CollectiveOp::max);
  state.offset = static_cast<uint64_t>(offset[0]);
  default_generator().set_state(state);
}

Tensor PipelineStages::run(const Tensors& input, const Tensors& target, const MicroStep& step) {
  check_usable();
  check(grad_enabled(),
        "pipeline: execute_pipeline trains; got a NoGradGuard, want a direct call of the model for "
        "an evaluation");
  const std::vector<int64_t> begins = microbatches_of(input);
  check(target.rows("pipeline: target") == begins.back(),
        "pipeline: input and target differ in rows; got {} and {}", begins.back(),
        target.rows("pipeline: target"));
  const PipelineSchedule schedule = schedule_for(static_cast<int>(begins.size()) - 1);
  std::vector<double> loss = {0, 0};  // the loss and its dtype, which only the last stage knows
  unless_it_fails([&] {
    tied_.begin();
    BatchRun batch(*this, step, input, target, begins);
    {
      const StageRandom random(stage());
      batch.run(schedule);
    }
    tied_.end();
    if (stage() == stages() - 1)
      loss = {batch.loss().item(), static_cast<double>(batch.loss().dtype())};
    group_.broadcast(loss, stages() - 1);
    settle_random();
  });
  return scalar(loss[0], {static_cast<DType>(static_cast<int>(loss[1])), input.device()});
}

Tensors PipelineStages::forward(const Tensors& input, const MicroStep& step) {
  check_usable();
  check(!grad_enabled() || !model_.module().training(),
        "pipeline: got a call of a model in stages, in training mode with gradients; want "
        "booster.execute_pipeline(batches, model, criterion, optimizer), or model.eval() or a "
        "NoGradGuard for an evaluation");
  const NoGradGuard no_grad;
  const std::vector<int64_t> begins = microbatches_of(input);
  Tensors output;
  unless_it_fails([&] {
    BatchRun batch(*this, step, input, {}, begins);
    {
      const StageRandom random(stage());
      batch.run(make_forward_schedule(stages(), static_cast<int>(begins.size()) - 1, chunks()));
    }
    output = everybodys(batch.outputs());
    settle_random();
  });
  return output;
}

// Joins outputs of microbatches by name.
Tensors PipelineStages::joined(const std::vector<Tensors>& outputs) {
  if (outputs.size() == 1) return outputs[0];
  std::vector<NamedTensor> all;
  for (const auto& [name, first] : outputs[0]) {
    std::vector<Tensor> parts;
    for (const Tensors& one : outputs) {
      check(one.size() == outputs[0].size() && one.contains(name),
            "pipeline: microbatches give outputs of different names; got {}, want {}", one.names(),
            outputs[0].names());
      parts.push_back(name.empty() ? one.only() : one[name]);
    }
    check(first.ndim() > 0,
          "pipeline: output {} has no rows to join; got one element of each microbatch, want one "
          "for each row",
          name);
    all.push_back({name, cat(parts, 0)});
  }
  return Tensors(std::move(all));
}

// Sends the last stage's outputs, joined, to all stages.
Tensors PipelineStages::everybodys(const std::vector<Tensors>& outputs) const {
  const int last = stages() - 1;
  Tensors output;
  std::vector<int64_t> form, size = {0};
  if (stage() == last) {
    output = joined(outputs).map(untracked::contiguous);
    form = numbers_of(forms_of(output));
    size[0] = static_cast<int64_t>(form.size());
  }
  if (stages() == 1) return output;
  group_.broadcast(size, last);
  form.resize(static_cast<size_t>(size[0]));
  group_.broadcast(form, last);
  if (stage() != last) output = room_for(forms_of(form), device_);
  for (const auto& [name, tensor] : output)
    if (tensor.numel() > 0) group_.broadcast(tensor, last);
  return output;
}

}  // namespace booster
