// A gradient penalty in fp16 with torch's recipe, against PyTorch 2.15's autocast and loss scaling
// on a CPU (tests/golden/make_double_backward.py).
#include "core/autograd/functions.h"
#include "core/autograd/tape.h"
#include "core/optim/optimizers.h"
#include "mixed_precision/ops/op_policies.h"
#include "mixed_precision/scaling/loss_scaler.h"

#include <doctest/doctest.h>

using namespace booster;

namespace {

Tensor leaf(const std::vector<float>& numbers, const Shape& shape) {
  return from_vector(numbers, shape).requires_grad_();
}

void check_close(const Tensor& x, const std::vector<double>& want) {
  for (size_t i = 0; i < want.size(); ++i)
    CHECK(x.to_vector<double>()[i] == doctest::Approx(want[i]).epsilon(3e-3));
}

}  // namespace

TEST_CASE("a gradient penalty in fp16 is PyTorch's") {
  const OpPolicy fp16 = torch_autocast_policy(DeviceType::cpu, DType::f16);
  const Tensor x = from_vector<float>({0.5F, -1, 0.25F, 2}, {2, 2});
  const Tensor w1 = leaf({0.1F, -0.2F, 0.3F, 0.4F, -0.5F, 0.6F}, {3, 2});
  const Tensor b1 = leaf({0.1F, 0.2F, -0.3F}, {3}), w2 = leaf({0.7F, -0.8F, 0.9F}, {1, 3});
  Optimizer optimizer = SGD({w1, b1, w2}, {.lr = 0.1});
  GradScaler scaler({.init_scale = 1024});
  Tensor loss, penalty = zeros({});
  {
    const PolicyScope autocast(&fp16);
    const Tensor y = linear(tanh(linear(x, w1, b1)), w2);
    loss = mean(square(cast(y, DType::f32) - 1));
  }
  for (const Tensor& g : gradients(scaler.scale(loss), {w1, b1, w2}, {.create_graph = true}))
    penalty = penalty + sum(square(g * (1 / scaler.get_scale())));
  penalty = sqrt(penalty);
  CHECK(penalty.item() == doctest::Approx(3.14135).epsilon(1e-3));
  backward(scaler.scale(loss + penalty));
  scaler.unscale_(optimizer);
  check_close(w1.grad(), {-1.154297, -0.6523438, 1.419922, -0.9570312, -0.8999023, -3.71875});
  check_close(b1.grad(), {-2.902344, 3.214844, -2.902344});
  check_close(w2.grad(), {1.621094, -3.130859, 1.032227});
}
