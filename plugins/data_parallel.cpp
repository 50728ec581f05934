#include "plugins/data_parallel.h"

#include "core/autograd/tape.h"
#include "core/tensor/absence.h"

#include <utility>

namespace booster {

namespace {

constexpr size_t names_shown = 5;

// Returns the tensors that all ranks need equal at the start: parameters and buffers, the
// optimizers' other parameters, and existing masters.
std::vector<Tensor> shared_numbers(const Model& model, const Optimizers& optimizers) {
  std::vector<Tensor> all;
  std::unordered_set<const TensorBody*> known;
  const auto add = [&](const std::vector<NamedTensor>& tensors) {
    for (const auto& [name, tensor] : tensors)
      if (known.insert(tensor.body()).second) all.push_back(tensor);
  };
  add(model.state_dict());
  for (const Optimizer& optimizer : optimizers) add(optimizer.parameters());
  return all;
}

// Returns false for an empty parameter, which belongs to another pipeline stage.
bool is_trained_here(const Tensor& parameter) {
  return parameter.requires_grad() && parameter.numel() > 0;
}

void share_masters(const Optimizers& optimizers, const Group& group) {
  for (Optimizer optimizer : optimizers)
    for (const auto& [name, parameter] : optimizer.parameters()) {
      const Tensor master = optimizer.master(name);
      if (!master.defined()) continue;
      group.broadcast(master);
      optimizer.set_master(name, master);
    }
}

}  // namespace

void share_numbers(const Model& model, const Optimizers& optimizers, const Group& group) {
  const NoGradGuard no_grad;
  for (const Tensor& tensor : shared_numbers(model, optimizers))
    if (!kept_part(tensor).defined()) group.broadcast(tensor);  // else it was shared before
  share_masters(optimizers, group);
}

DataParallelPlugin::DataParallelPlugin(Mesh mesh, bool broadcast_buffers)
    : mesh_(std::move(mesh)),
      group_(mesh_.joint_group({"data", "sequence"})),
      same_layers_(mesh_.joint_group({"data", "sequence", "tensor"})),
      broadcast_buffers_(broadcast_buffers) {}

DataParallelPlugin::DataParallelPlugin(const DataParallelPlugin& other)
    : DataParallelPlugin(other.mesh_, other.broadcast_buffers_) {
  check(other.optimizers_.empty(), "{}: already serves a model; want a new plugin object",
        other.name());
}

void DataParallelPlugin::shard(const Model& model, const Optimizers& optimizers) {
  number_training();
  share_numbers(model, optimizers, group_);
  for (const Tensor& tensor : shared_numbers(model, optimizers)) shared_.insert(tensor.body());
  for (Optimizer optimizer : optimizers)
    optimizer.on_new_group([joined = joined_](Optimizer&, const Parameters& added) {
      joined->insert(joined->end(), added.begin(), added.end());
    });
}

void DataParallelPlugin::share_joined() {
  const NoGradGuard no_grad;
  for (const auto& [name, parameter] : std::exchange(*joined_, {})) {
    if (!shared_.insert(parameter.body()).second || parameter.numel() == 0) continue;
    group_.broadcast(parameter);
    parameter.bump_version();  // its master follows
  }
}

void DataParallelPlugin::number_training() {
  if (!std::exchange(is_numbered_, true)) training_ = group_.next_number();
}

void DataParallelPlugin::prepare(const Model& model, const Optimizers& optimizers) {
  model_ = model;
  optimizers_ = optimizers;
}

Parameters DataParallelPlugin::new_parameters() {
  Parameters added;
  const auto consider = [&](const Parameters& parameters) {
    for (const NamedTensor& parameter : parameters)
      if (is_trained_here(parameter.tensor) && known_.insert(parameter.tensor.body()).second)
        added.push_back(parameter);
  };
  consider(model_.parameters());
  for (const Optimizer& optimizer : optimizers_) consider(optimizer.parameters());
  return added;
}

DataLoader DataParallelPlugin::prepare_dataloader(std::shared_ptr<const Dataset> dataset,
                                                  DataLoaderOptions options) const {
  options.rank = mesh_.place("data");
  options.world_size = mesh_.size("data");
  options.gather = gather_numbers(mesh_.group("data"));
  return DataLoader(std::move(dataset), std::move(options));
}

void DataParallelPlugin::share_buffers() {
  if (!broadcast_buffers_ || group_.size() == 1) return;
  has_moved_buffers_ = false;
  const NoGradGuard no_grad;
  for (const auto& buffer : model_.buffers())
    if (buffer.tensor.numel() > 0) group_.broadcast(buffer.tensor);  // else another stage's
}

Tensors DataParallelPlugin::forward(const Tensors& input, const MicroStep& step) {
  if (step.trains) share_joined();
  Tensors y = Plugin::forward(input, step);
  model_has_run(step);
  return y;
}

Tensor DataParallelPlugin::run(const Tensors& input, const Tensors& target, const MicroStep& step) {
  if (step.trains) share_joined();
  const Tensor loss = Plugin::run(input, target, step);
  model_has_run(step);
  return loss;
}

void DataParallelPlugin::model_has_run(const MicroStep& step) {
  if (step.moves_buffers_alone) return share_buffers();
  if (step.trains) has_moved_buffers_ = true;
  if (step.trains || !has_moved_buffers_ || has_noted_buffers_) return;
  if (!broadcast_buffers_ || group_.size() == 1 || model_.buffers().empty()) return;
  has_noted_buffers_ = true;
  add_note(
      "data parallelism: evaluation after training passes without a step; ranks may use different "
      "statistics, and checkpoints hold rank 0's; want a step before it, or share_buffers() of the "
      "boosted model");
}

// Shares buffers after the step, not around a pass: graphs may hold buffers, and one rank may
// evaluate alone.
void DataParallelPlugin::sync_params(const Optimizers&) { share_buffers(); }

std::vector<int64_t> DataParallelPlugin::over_stages(std::vector<int64_t> numbers) const {
  if (mesh_.size("pipeline") > 1) mesh_.group("pipeline").all_reduce(numbers);
  return numbers;
}

void DataParallelPlugin::check_none_missing(const Optimizer& optimizer, const char* advice) const {
  if (group_.size() == 1) return;
  std::string names;
  size_t missing = 0, asked = 0;
  for (const auto& [name, parameter] : optimizer.parameters()) {
    if (!is_trained_here(parameter) || !known_.contains(parameter.body())) continue;
    ++asked;
    if (parameter.grad().defined()) continue;
    if (missing++ < names_shown) names += (names.empty() ? "" : ", ") + name;
  }
  if (missing == asked) return;  // no backward pass since its gradients were dropped
  if (missing > names_shown) names += ", ...";
  const bool is_part = mesh_.axes().list().size() > 1;
  check(missing == 0,
        "{}: {} of {} parameters got no gradient in this step: {}; want a loss that depends on "
        "every parameter, or {}",
        is_part ? "data parallelism" : name(), missing, asked, names,
        is_part ? "the others frozen (requires_grad_(false))" : advice);
}

void DataParallelPlugin::agree(Tensor& numbers, Among among) {
  const Group& ranks = among == Among::everybody ? mesh_.world() : same_layers_;
  if (ranks.size() > 1) ranks.all_reduce(numbers, CollectiveOp::max);
}

}  // namespace booster
