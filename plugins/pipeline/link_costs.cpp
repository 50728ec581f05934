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
Tensor there_and_back(Module& model, int i, const Tensor& x) {
  std::vector<Tensor> trained;
  if (x.requires_grad()) trained.push_back(x);
  for (const Tensor& tensor : model.link(i).tensors)
    if (tensor.requires_grad()) trained.push_back(tensor);
  const Tensor y = model.run_links(x, i, i + 1);
  if (y.requires_grad()) gradients(y, trained, {.grad = ones_like(y)});
  return y;
}

}  // namespace

std::vector<double> measured_costs(Module& model, const Tensor& input, int rounds) {
  check(rounds >= 1, "measured_costs: want at least one round; got {}", rounds);
  const GradMode record(true);
  const Evaluation evaluation(model);
  std::vector<double> costs(static_cast<size_t>(model.link_count()),
                            std::numeric_limits<double>::infinity());
  for (int round = 0; round < rounds; ++round) {
    Tensor x = input;
    for (int i = 0; i < model.link_count(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      const Tensor y = there_and_back(model, i, x);
      kernels::device_synchronize(y.device());
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      double& cost = costs[static_cast<size_t>(i)];
      cost = std::min(cost, taken.count());
      x = y.detach();
      if (y.requires_grad()) x.requires_grad_();
    }
  }
  return costs;
}

}  // namespace booster
