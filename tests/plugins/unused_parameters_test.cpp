// Parameters outside a loss. Ranks with different data may lack a gradient that other ranks have.
// With a single such rank this is no error.
#include "tests/error_of.h"
#include "tests/parallel/ranks.h"

#include "booster/booster.h"

#include <doctest/doctest.h>

using namespace booster;

namespace {

class Idle : public Module {
 public:
  Idle()
      : Module("Idle"),
        fc1(add<Linear>("fc1", 6, 4)),
        fc2(add<Linear>("fc2", 4, 2)),
        idle(add_parameter("idle", ones({3}))) {}

 private:
  Tensor forward(const Tensor& x) override { return fc2(relu(fc1(x))); }
  Linear &fc1, &fc2;
  Tensor idle;
};

// Returns the error of a step; "": none, and only parameters with a gradient moved.
std::string error_of_step(const Choice<Plugin>& plugin) {
  return error_of([&] {
    Booster booster({.plugin = plugin});
    const Model model = Idle();
    auto [net, optimizer] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
    booster.backward(sum(net(ones({2, 6}))), optimizer);
    const double norm = optimizer.step().grad_norm();  // not in a CHECK: it catches errors
    CHECK(norm > 0);
    const WholeParameters whole(net);
    for (const NamedTensor& parameter : model.parameters())
      if (parameter.name == "idle") CHECK(parameter.tensor.to_vector<float>()[0] == 1);
  });
}

}  // namespace

TEST_CASE("a process alone may have parameters that nothing uses, with every plugin") {
  CHECK(error_of_step(TorchDDPPlugin()) == "");
  CHECK(error_of_step(LowLevelZeroPlugin()) == "");
  CHECK(error_of_step(FsdpPlugin()) == "");
  CHECK(error_of_step(HybridParallelPlugin()) == "");
}

TEST_CASE("rank: unused parameters" * doctest::skip()) {
  const TensorPlan plan = {{"fc1", {.style = SplitStyle::column}},
                           {"fc2", {.style = SplitStyle::row}}};
  for (const int64_t zero : {0, 1, 3})
    CHECK(error_of_step(
              HybridParallelPlugin({.tp_size = 2, .zero_stage = zero, .tensor_plan = plan})) == "");
  for (const int64_t zero : {0, 1, 3}) {
    const std::string error = error_of_step(HybridParallelPlugin({.zero_stage = zero}));
    CHECK(contains(error, "data parallelism: 1 of 5 parameters got no gradient in this step: "));
    CHECK(contains(error, "idle"));
    CHECK(contains(error, "frozen (requires_grad_(false))"));
  }
}
TEST_CASE("hybrid_parallel wants every gradient only of ranks that see different data") {
  CHECK(failures(Ranks("rank: unused parameters", 2).wait(60)) == "");
}
