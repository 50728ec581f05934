#include "plugins/pipeline/stage_parts.h"

#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/nn/module.h"
#include "parallel/groups/group.h"

#include <algorithm>
#include <numeric>
#include <sstream>

namespace booster {
namespace {

// Returns the placeholder for a tensor that is on another stage.
Tensor emptied(const Tensor& tensor) {
  Shape none = tensor.ndim() > 0 ? tensor.shape() : Shape{0};
  none[0] = 0;
  return empty(none, {tensor.dtype(), tensor.device()});
}

// Makes gradients of the empty tensor throw; otherwise it would silently add nothing to a loss.
void refuse_gradients(const NamedTensor& parameter) {
  if (!parameter.tensor.is_leaf() || !is_floating(parameter.tensor.dtype())) return;
  Tensor leaf = parameter.tensor;
  const bool is_trained = leaf.requires_grad();
  leaf.requires_grad_(true);  // a frozen parameter may be unfrozen later
  register_grad_hook(leaf, [name = parameter.name](const Tensor&) -> Tensor {
    fail(
        "pipeline: {} belongs to another stage and is empty on this one; got a loss that reads it, "
        "want a loss of the output and of this stage's parameters (numel() > 0), or weight decay "
        "of the optimizer",
        name);
  });
  leaf.requires_grad_(is_trained);
}

using StagesOf = std::unordered_map<const TensorBody*, std::vector<int>>;

StagesOf stages_of_links(const Model& model, const StageCut& cut, int stages) {
  StagesOf users;
  for (size_t piece = 0; piece + 1 < cut.size(); ++piece)
    for (int link = cut[piece]; link < cut[piece + 1]; ++link)
      for (const Tensor& tensor : model->link(link).tensors) {
        std::vector<int>& known = users[tensor.body()];
        const int stage = static_cast<int>(piece) % stages;
        if (std::ranges::find(known, stage) == known.end()) known.push_back(stage);
      }
  for (auto& [body, known] : users) std::ranges::sort(known);
  return users;
}

// Returns one line per tensor: dtype, sizes, ":" and the name.
std::string described(const StateDict& state) {
  std::string text;
  for (const auto& [name, tensor] : state) {
    text += fmt::format("{}", static_cast<int>(tensor.dtype()));
    for (int i = 0; i < tensor.ndim(); ++i) text += fmt::format(" {}", tensor.size(i));
    text += " :" + name + "\n";
  }
  return text;
}

// Makes the described tensors on the CPU, with no values yet.
StateDict announced(const std::string& text) {
  StateDict state;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    const size_t colon = line.find(':');
    std::istringstream numbers(line.substr(0, colon));
    int dtype = 0;
    numbers >> dtype;
    Shape shape;
    for (int64_t size = 0; numbers >> size;) shape.push_back(size);
    state.push_back(
        {line.substr(colon + 1), empty(shape, {.dtype = static_cast<DType>(dtype)})});
  }
  return state;
}

}  // namespace

StageParts::StageParts(const Model& model, const Optimizers& optimizers, const StageCut& cut,
                       const Group& group)
    : group_(group), stages_(stages_of_links(model, cut, group.size())) {
  std::vector<int> everywhere(static_cast<size_t>(group.size()));
  std::iota(everywhere.begin(), everywhere.end(), 0);
  const StateDict own = model.state_dict();
  for (const auto& [name, tensor] : own)
    check(stages_.count(tensor.body()) > 0,
          "pipeline: no link of the {} uses {}; want links that name all parameters and buffers "
          "that they use (Module::link)",
          model->kind(), name);
  std::vector<const TensorBody*> seen;
  const auto note = [&](const NamedTensor& held) {
    const TensorBody* body = held.tensor.body();
    by_name_.emplace(held.name, stages_.emplace(body, everywhere).first->second);
    if (std::ranges::find(seen, body) != seen.end()) return;
    seen.push_back(body);
    const std::vector<int>& stages = stages_.at(body);
    if (stages.size() > 1) shared_.push_back({held.tensor, stages});
    if (is_here(stages)) return;
    replace_(held.tensor, emptied(held.tensor));
    refuse_gradients(held);
  };
  for (const NamedTensor& held : own) note(held);
  for (const Optimizer& optimizer : optimizers)
    for (const NamedTensor& parameter : optimizer.parameters()) note(parameter);
}

bool StageParts::is_here(const std::vector<int>& stages) const {
  return std::ranges::find(stages, group_.rank()) != stages.end();
}

const std::vector<int>& StageParts::stages_of(const Tensor& tensor) const {
  const auto found = stages_.find(tensor.body());
  check(found != stages_.end(), "pipeline: a tensor of shape {} belongs to no stage",
        tensor.shape());
  return found->second;
}

const std::vector<int>* StageParts::stages_of_tensor(const std::string& name) const {
  for (std::string part = name;; part.resize(part.rfind('.'))) {
    if (const auto exact = by_name_.find(part); exact != by_name_.end()) return &exact->second;
    if (part.find('.') == std::string::npos) return nullptr;
  }
}

const std::vector<int>* StageParts::stages_of_module(const std::string& name) const {
  for (std::string part = name;; part.resize(part.rfind('.'))) {
    const auto within = by_name_.lower_bound(part + ".");
    if (within != by_name_.end() && lies_in(within->first, part)) return &within->second;
    if (part.find('.') == std::string::npos) return nullptr;
  }
}

void StageParts::join(StateDict& state) const {
  std::erase_if(state, [&](const NamedTensor& held) {
    const std::vector<int>* stages = stages_of_tensor(held.name);
    if (!stages) stages = stages_of_module(held.name);
    return group_.rank() != (stages ? stages->front() : 0);
  });
  if (group_.size() == 1) return;
  const std::vector<std::string> texts =
      gather_text(group_.rank() == 0 ? "" : described(state), group_);
  if (group_.rank() > 0)
    for (const auto& [name, tensor] : state)
      group_.send(untracked::contiguous(tensor.detach().to(Device{})), 0);
  for (int from = 1; group_.rank() == 0 && from < group_.size(); ++from)
    for (const NamedTensor& held : announced(texts[static_cast<size_t>(from)])) {
      group_.receive(held.tensor, from);
      state.push_back(held);
    }
}

// Splits a state. Counts of steps, and other tensors without the parameter's shape, are whole on
// every stage.
void StageParts::split(StateDict& state) const {
  for (auto& [name, tensor] : state) {
    const std::vector<int>* stages = stages_of_tensor(name);
    if (!stages || is_here(*stages)) continue;
    if (by_name_.count(name) > 0 || is_floating(tensor.dtype())) tensor = emptied(tensor);
  }
}

}  // namespace booster
