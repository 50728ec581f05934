#include "tests/plugins/toys/toy_pipeline.h"

#include "tests/plugins/toys/chain.h"
#include "tests/plugins/toys/messages.h"
#include "tests/plugins/toys/rank_norms.h"

#include <algorithm>

namespace booster::toys {

void ToyPipeline::shard(const Model& model, const Optimizers& optimizers) {
  auto* chain = dynamic_cast<Chain*>(&model.module());
  check(chain && chain->size() >= stages(),
        "toy_pipeline: want a Chain of at least {} modules; got a {}", stages(), model->kind());
  for (const NamedTensor& held : model.state_dict()) group().broadcast(held.tensor);
  for (int s = 0; s <= stages(); ++s) first_.push_back(chain->size() * s / stages());
  chain->keep(first_[static_cast<size_t>(stage())], first_[static_cast<size_t>(stage() + 1)]);
  for (const auto& [name, tensor] : model.state_dict())
    if (stage_of(name) != stage()) others_.push_back(name);
  for (Optimizer optimizer : optimizers) {
    std::vector<Tensor> mine;
    for (const auto& [name, tensor] : optimizer.parameters()) mine.push_back(tensor);
    const auto norm = [mine, group = group()](double power) {
      return norm_over(group, gradients_of(mine), {}, power);
    };
    optimizer.share_norms({.gradient_norm = norm, .add_squares = {}});
  }
}

Tensor ToyPipeline::rows(const Tensor& batch, int i) const {
  check(batch.size(0) % microbatches_ == 0, "toy_pipeline: {} rows do not divide by {}",
        batch.size(0), microbatches_);
  const int64_t size = batch.size(0) / microbatches_;
  return untracked::narrow(batch, 0, i * size, size);
}

Tensor ToyPipeline::run(const Tensors& input, const Tensors& target, const MicroStep& step) {
  std::vector<Tensor> inputs, outputs;
  Tensor loss = zeros({1}, {.dtype = DType::f64});  // at least as wide as any strategy's loss
  for (int i = 0; i < microbatches_; ++i) {
    inputs.push_back(stage() == 0 ? rows(input, i) : receive(group(), stage() - 1));
    if (stage() > 0) inputs.back().requires_grad_();
    outputs.push_back(step.forward(inputs.back()).only());
    if (!is_last()) {
      send(group(), outputs.back(), stage() + 1);
      continue;
    }
    outputs.back() = step.loss(outputs.back(), rows(target, i)) * (1.0 / microbatches_);
    loss.add_(outputs.back().detach());
  }
  for (int i = 0; i < microbatches_; ++i) {
    const Tensor& y = outputs[static_cast<size_t>(i)];
    if (is_last()) backward(step.scale(y));
    else backward(y, {.grad = receive(group(), stage() + 1)});
    if (stage() > 0) send(group(), inputs[static_cast<size_t>(i)].grad(), stage() - 1);
  }
  group().broadcast(loss, stages() - 1);
  return untracked::reshape(loss, {});
}

// No two stages share a layer.
void ToyPipeline::agree(Tensor& numbers, Among among) {
  if (among == Among::everybody) group().all_reduce(numbers, CollectiveOp::max);
}

int ToyPipeline::stage_of(const std::string& name) const {
  int stage = 0;
  while (std::stoi(name) >= first_[static_cast<size_t>(stage + 1)]) ++stage;
  return stage;
}

// Stages have different names; only a tensor's owner knows that it exists.
void ToyPipeline::join(StateDict& state) const {
  std::erase_if(state, [&](const auto& held) { return stage_of(held.name) != stage(); });
  if (stage() > 0) {
    send(group(), scalar(static_cast<double>(state.size())), 0);
    for (const auto& [name, tensor] : state) {
      send(group(), from_vector(std::vector<uint8_t>(name.begin(), name.end()),
                                {static_cast<int64_t>(name.size())}), 0);
      send(group(), tensor, 0);
    }
  }
  for (int from = 1; stage() == 0 && from < stages(); ++from)
    for (double left = receive(group(), from).item(); left > 0; --left) {
      const auto name = receive(group(), from).to_vector<uint8_t>();
      state.push_back({std::string(name.begin(), name.end()), receive(group(), from)});
    }
}

void ToyPipeline::split(StateDict& state) const {
  const auto is_of_other_stage = [&](const std::string& name) {
    return std::ranges::any_of(others_, [&](const auto& other) { return lies_in(name, other); });
  };
  for (auto& [name, tensor] : state)
    if (is_floating(tensor.dtype()) && is_of_other_stage(name)) tensor = emptied(tensor);
}

}  // namespace booster::toys
