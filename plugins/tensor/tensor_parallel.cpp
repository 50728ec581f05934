#include "plugins/tensor/tensor_parallel.h"

#include "core/nn/module.h"
#include "core/tensor/tensor.h"
#include "platform/error.h"
#include "plugins/tensor/planned_layers.h"
#include "plugins/tensor/rank_split.h"
#include "plugins/tensor/tensor_plan.h"

#include <algorithm>

namespace booster {

namespace {

using Result = LayerSplit::Result;

// Returns the units that the ranks share evenly: features, or heads if a head must stay whole.
int64_t units_of(const PlannedLayer& layer, const Tensor& weight) {
  const int dim = layer.plan.style == SplitStyle::row ? 1 : 0;
  const int64_t features = weight.size(dim) / layer.plan.groups;
  const int64_t heads = layer.parent->attention_heads();
  const bool are_heads = heads > 0 && features % heads == 0 && !layer.plan.gather;
  return are_heads ? heads : features;
}

bool may_be_uneven(const LayerPlan& plan) {
  return plan.gather || plan.style == SplitStyle::vocabulary;
}

// Returns true if each rank gets units, and the same number unless parts may be uneven.
bool divides(const PlannedLayer& layer, int ranks) {
  const int64_t units = units_of(layer, layer.weight());
  if (!may_be_uneven(layer.plan)) return units % ranks == 0;
  return ElementRange(RankParts{units, ranks}.of(ranks - 1)).size() > 0;
}

// Lists the numbers of ranks among which all layers divide.
std::string fitting_sizes(const std::vector<PlannedLayer>& layers) {
  constexpr int64_t most = 1024;
  int64_t units = most;  // no more ranks than the units of any layer
  for (const PlannedLayer& layer : layers) units = std::min(units, units_of(layer, layer.weight()));
  std::string sizes;
  for (int size = 1; size <= units; ++size)
    if (std::ranges::all_of(layers, [&](const auto& layer) { return divides(layer, size); }))
      sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  return sizes;
}

void check_fits(const PlannedLayer& layer, const std::vector<PlannedLayer>& all, int ranks) {
  const LayerPlan& plan = layer.plan;
  const Tensor weight = layer.weight();
  const int64_t features = weight.size(plan.style == SplitStyle::row ? 1 : 0);
  check(plan.groups >= 1 && features % plan.groups == 0,
        "tensor_plan: {}: groups do not divide the features; got {} groups of {} features",
        layer.name, plan.groups, features);
  check(plan.groups == 1 || (plan.style == SplitStyle::column && !plan.gather),
        "tensor_plan: {}: only style column without gather can have groups", layer.name);
  check(!plan.gather || plan.style == SplitStyle::column,
        "tensor_plan: {}: only style column can have gather; got {}", layer.name,
        name_of(plan.style));
  const int64_t units = units_of(layer, weight);
  const bool are_heads = units != features / plan.groups;
  check(divides(layer, ranks),
        "hybrid_parallel: tp_size {} does not divide {}, which has {} {}; want tp_size {}", ranks,
        layer.name, units, are_heads ? "heads" : "features", fitting_sizes(all));
}

}  // namespace

Shape TensorCut::part_shape(int rank, int ranks) const {
  Shape shape = whole;
  shape[dim] = groups * parts(ranks).of(rank).size();
  return shape;
}

Tensor TensorCut::window(const Tensor& tensor, int64_t i, int rank, int ranks) const {
  const RankParts each = parts(ranks);
  const ElementRange range = each.of(rank);
  return untracked::narrow(tensor.detach(), dim, i * each.numel + range.begin, range.size());
}

Tensor TensorCut::part_of(const Tensor& tensor, int rank, int ranks) const {
  const Tensor part = empty(part_shape(rank, ranks), {tensor.dtype(), tensor.device()});
  const int64_t size = parts(ranks).of(rank).size();
  for (int64_t i = 0; i < groups; ++i)
    untracked::narrow(part, dim, i * size, size).copy_(window(tensor, i, rank, ranks));
  return part;
}

void TensorCut::put_part(const Tensor& tensor, const Tensor& part, int rank, int ranks) const {
  const int64_t size = parts(ranks).of(rank).size();
  for (int64_t i = 0; i < groups; ++i)
    window(tensor, i, rank, ranks).copy_(untracked::narrow(part, dim, i * size, size));
}

void TensorParallel::cut(const Model& model, const TensorPlan& plan, const SplitMaker& make) {
  if (group_.size() == 1) return;
  const std::vector<PlannedLayer> layers = planned_layers(plan, model.module());
  for (const PlannedLayer& layer : layers) check_fits(layer, layers, group_.size());
  const NoGradGuard no_grad;
  for (const PlannedLayer& layer : layers) {
    const Tensor weight = layer.weight(), bias = layer.bias();
    const bool is_row = layer.plan.style == SplitStyle::row;
    const Result result = is_row ? Result::summand
                          : layer.plan.gather || layer.plan.style == SplitStyle::vocabulary
                              ? gathered_
                              : Result::part;
    const int dim = is_row ? 1 : 0;
    set_layer_split(weight, make(layer.name, result, weight.size(dim)));
    if (bias.defined() && !is_row)
      cut_tensor(bias, {.whole = bias.shape(), .groups = layer.plan.groups});
    cut_tensor(weight, {.whole = weight.shape(), .dim = dim, .groups = layer.plan.groups});
  }
  share(shared_parameters(plan, model.module()));
  for (const auto& [name, tensor] : model.state_dict())
    for (const auto& [cut_tensor, cut] : cuts_)
      if (tensor.same_body(cut_tensor)) by_name_.emplace(name, cut);
}

void TensorParallel::share(const Parameters& parameters) {
  for (const NamedTensor& parameter : parameters) {
    check(!is_cut(parameter.tensor) && !is_shared(parameter.tensor),
          "tensor_plan: two patterns match {}, one with style shared", parameter.name);
    sum_gradient_over(group_, parameter.tensor);
    shared_.push_back(parameter);
  }
}

bool TensorParallel::is_shared(const Tensor& parameter) const {
  return std::ranges::any_of(
      shared_, [&](const NamedTensor& one) { return one.tensor.same_body(parameter); });
}

void TensorParallel::cut_tensor(const Tensor& tensor, const TensorCut& cut) {
  replace_(tensor, cut.part_of(tensor, group_.rank(), group_.size()));
  cuts_.push_back({tensor, cut});
}

bool TensorParallel::is_cut(const Tensor& parameter) const {
  return std::ranges::any_of(
      cuts_, [&](const CutTensor& one) { return one.tensor.same_body(parameter); });
}

const TensorCut* TensorParallel::cut_of(const NamedTensor& held, bool is_whole) const {
  if (!is_floating(held.tensor.dtype())) return nullptr;
  for (const auto& [name, cut] : by_name_) {
    const Shape shape = is_whole ? cut.whole : cut.part_shape(group_.rank(), group_.size());
    if (lies_in(held.name, name) && held.tensor.shape() == shape) return &cut;
  }
  return nullptr;
}

void TensorParallel::join(StateDict& state) const {
  for (NamedTensor& held : state)
    if (const TensorCut* cut = cut_of(held, false)) held.tensor = joined(held.tensor, *cut);
}

// Returns the whole on the first rank; the others keep their parts.
Tensor TensorParallel::joined(const Tensor& part, const TensorCut& cut) const {
  const Tensor mine = untracked::contiguous(part.detach());
  if (group_.rank() != 0) {
    group_.send(mine, 0);
    return part;
  }
  const Tensor whole = empty(cut.whole, {part.dtype(), part.device()});
  cut.put_part(whole, mine, 0, group_.size());
  for (int rank = 1; rank < group_.size(); ++rank) {
    const Tensor theirs =
        empty(cut.part_shape(rank, group_.size()), {part.dtype(), part.device()});
    group_.receive(theirs, rank);
    cut.put_part(whole, theirs, rank, group_.size());
  }
  return whole;
}

void TensorParallel::split(StateDict& state) const {
  for (NamedTensor& held : state)
    if (const TensorCut* cut = cut_of(held, true))
      held.tensor = cut->part_of(held.tensor, group_.rank(), group_.size());
}

}  // namespace booster
