#include "plugins/pipeline/link_costs.h"

#include "core/autograd/tape.h"
#include "core/nn/evaluation.h"
#include "kernels/device/memory.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <utility>

namespace booster {

std::vector<double> parameter_costs(Module& model) {
  std::vector<double> costs;
  for (int i = 0; i < model.link_count(); ++i) {
    double cost = 1;
    for (const Tensor& tensor : model.link(i).tensors) cost += static_cast<double>(tensor.numel());
    costs.push_back(cost);
  }
  return costs;
}

namespace {

// Returns the link's result, after computing and discarding its gradients.
Tensors there_and_back(Module& model, int i, const Tensors& x) {
  std::vector<Tensor> trained;
  for (const auto& [name, tensor] : x)
    if (tensor.requires_grad()) trained.push_back(tensor);
  for (const Tensor& tensor : model.link(i).tensors)
    if (tensor.requires_grad()) trained.push_back(tensor);
  Tensors y = model.run_links(x, i, i + 1);
  size_t left = y.size();
  for (const auto& [name, tensor] : y)
    if (const bool retain = --left > 0; tensor.requires_grad() && !tensor.is_leaf())
      gradients(tensor, trained, {.grad = ones_like(tensor), .retain_graph = retain});
  return y;
}

}  // namespace

std::vector<double> measured_costs(Module& model, const Tensors& input, int rounds) {
  check(rounds >= 1, "measured_costs: want at least one round; got {}", rounds);
  const GradMode record(true);
  const Evaluation evaluation(model);
  std::vector<double> costs(static_cast<size_t>(model.link_count()),
                            std::numeric_limits<double>::infinity());
  for (int round = 0; round < rounds; ++round) {
    Tensors x = input;
    for (int i = 0; i < model.link_count(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      const Tensors y = there_and_back(model, i, x);
      kernels::device_synchronize(y.device());
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      double& cost = costs[static_cast<size_t>(i)];
      cost = std::min(cost, taken.count());
      x = y.map([](const Tensor& tensor) {
        Tensor next = tensor.detach();
        if (tensor.requires_grad()) next.requires_grad_();
        return next;
      });
    }
  }
  return costs;
}

}  // namespace booster
