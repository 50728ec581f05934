#include "plugins/interface/plugin.h"

#include "core/autograd/tape.h"

namespace booster {

Tensor Plugin::run(const Tensor& input, const Tensor& target, const MicroStep& step) {
  const Tensor loss = step.loss(step.forward(input), target);
  backward(step.scale(loss));
  return loss.detach();
}

}  // namespace booster
