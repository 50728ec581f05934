// The edges at which whole activations are split by features or tokens, and joined again. Layers
// and parameters at these edges agree with one process or are refused.
#include "tests/error_of.h"
#include "tests/plugins/small_vit.h"
#include "tests/plugins/spread_runs.h"

#include <doctest/doctest.h>

using namespace booster;
using namespace booster::testing;

namespace {

constexpr int64_t edge_width = 8, edge_tokens = 4;

class EdgeBlock : public Module {
 public:
  explicit EdgeBlock(Tensor given)
      : Module("EdgeBlock"),
        norm(add<LayerNorm>("norm", edge_width)),
        fc1(add<Linear>("fc1", edge_width, 2 * edge_width)),
        fc2(add<Linear>("fc2", 2 * edge_width, edge_width)),
        gain(std::move(given)) {}
  LayerNorm& norm;

 private:
  Tensor forward(const Tensor& x) override {
    const Tensor y = norm(x);
    return x + fc2(gelu(fc1(gain.defined() ? y * gain : y)));
  }
  Linear &fc1, &fc2;
  Tensor gain;
};

// What crosses the edge of the net's blocks.
enum class Crossing : uint8_t { nothing, gain, norm };

class EdgeNet : public Module {
 public:
  explicit EdgeNet(Crossing crossing)
      : Module("EdgeNet"),
        crossing_(crossing),
        gain_(add_parameter("gain", crossing == Crossing::gain ? ones({edge_width}) : Tensor())),
        blocks_(add<ModuleList>("blocks")),
        head_(add<Linear>("head", edge_width, 3)) {
    for (int i = 0; i < 2; ++i) blocks_.append(Model(EdgeBlock(gain_)));
  }

 private:
  Tensor forward(const Tensor& x) override {
    Tensor y = x;
    for (int i = 0; i < 2; ++i) y = blocks_[i](y);
    if (crossing_ == Crossing::norm) y = static_cast<EdgeBlock&>(blocks_[0]).norm(y);
    return head_(y);
  }
  Crossing crossing_;
  Tensor gain_;
  ModuleList& blocks_;
  Linear& head_;
};

// A slope, like a PReLU's, between two layers.
class Sloped : public Module {
 public:
  Sloped()
      : Module("Sloped"),
        fc1(add<Linear>("fc1", edge_width, 2 * edge_width)),
        fc2(add<Linear>("fc2", 2 * edge_width, 3)),
        slope(add_parameter("slope", full({}, 0.25))) {}

 private:
  Tensor forward(const Tensor& x) override {
    const Tensor y = fc1(x);
    return fc2(relu(y) - relu(-y) * slope);
  }
  Linear &fc1, &fc2;
  Tensor slope;
};

// Returns "" or the error of a training; checks each step against one process.
std::string trained_as_alone(const std::function<Model()>& make,
                             const HybridParallelOptions& options) {
  manual_seed(1);
  Model whole = make(), parts = make();
  parts.load_state_dict(whole.state_dict());
  Booster booster({.plugin = HybridParallelPlugin(options, launch_from_env().group())}),
      one({.plugin = SinglePlugin({.on_every_rank = true})});
  return error_of([&] {
    auto [net, optimizer] = booster.boost(parts, SGD(parts.parameters(), {.lr = 0.005}));
    auto [alone, its_optimizer] = one.boost(whole, SGD(whole.parameters(), {.lr = 0.005}));
    for (uint64_t step = 0; step < 3; ++step) {
      const Tensor x = numbers({3, edge_tokens, edge_width}, step);
      const Tensor y = net(x), want = alone(x);
      CHECK(amax(abs(y - want)).item() < 1e-4);
      booster.backward(sum(y * y), optimizer);
      one.backward(sum(want * want), its_optimizer);
      const double norm = optimizer.step().grad_norm();  // not in a CHECK: it catches errors
      CHECK(norm == doctest::Approx(its_optimizer.step().grad_norm()).epsilon(1e-4));
      optimizer.zero_grad();
      its_optimizer.zero_grad();
    }
  });
}

HybridParallelOptions gathering(TensorPlan plan) {
  return {.tp_size = 2,
          .tensor_plan = std::move(plan),
          .sequence_parallelism_mode = "split_gather",
          .sequence_blocks = "blocks.*"};
}

const std::pair<std::string, LayerPlan> cut_fc1 = {"blocks.*.fc1", {.style = SplitStyle::column}},
                                        cut_fc2 = {"blocks.*.fc2", {.style = SplitStyle::row}},
                                        gathered_fc1 = {"blocks.*.fc1", {.gather = true}};

std::function<Model()> edge_net(Crossing crossing) {
  return [crossing] { return Model(EdgeNet(crossing)); };
}

}  // namespace

TEST_CASE("rank: layers at the edges of tokens" * doctest::skip()) {
  for (const TensorPlan& plan :
       {TensorPlan{cut_fc2}, TensorPlan{gathered_fc1}, TensorPlan{gathered_fc1, cut_fc2}})
    CHECK(trained_as_alone(edge_net(Crossing::nothing), gathering(plan)) == "");
}
TEST_CASE("with split_gather a layer may have all features before it, and leave all") {
  run_ranks("rank: layers at the edges of tokens", 2);
}

TEST_CASE("rank: parameters that work on parts" * doctest::skip()) {
  const auto sloped = [] { return Model(Sloped()); };
  HybridParallelOptions options = {
      .tp_size = 2,
      .tensor_plan = {{"fc1", {.style = SplitStyle::column}}, {"fc2", {.style = SplitStyle::row}}}};
  const std::string refusal = trained_as_alone(sloped, options);
  CHECK(contains(refusal, "different gradients of slope"));
  CHECK(contains(refusal, "style shared"));
  options.tensor_plan.push_back({"slope", {.style = SplitStyle::shared}});
  CHECK(trained_as_alone(sloped, options) == "");
  options.tensor_plan.back().first = "fc1.bias";
  CHECK(contains(trained_as_alone(sloped, options), "two patterns match fc1.bias"));
  options.tensor_plan.back().first = "slopes";
  CHECK(contains(trained_as_alone(sloped, options), "matches no parameter; got slopes"));
}
TEST_CASE("what ranks hold whole and use on parts is told, and trained with style shared") {
  run_ranks("rank: parameters that work on parts", 2);
}

TEST_CASE("rank: parameters of both sides" * doctest::skip()) {
  CHECK(contains(trained_as_alone(edge_net(Crossing::gain), gathering({cut_fc1, cut_fc2})),
                 "different gradients of gain"));
  const TensorPlan shared = {cut_fc1, cut_fc2, {"gain", {.style = SplitStyle::shared}}};
  CHECK(trained_as_alone(edge_net(Crossing::gain), gathering(shared)) == "");
  CHECK(contains(trained_as_alone(edge_net(Crossing::norm), gathering({cut_fc1, cut_fc2})),
                 "blocks.0.norm is used inside sequence_blocks"));
}
TEST_CASE("split_gather refuses what blocks and the rest both use, or sums it as style shared") {
  run_ranks("rank: parameters of both sides", 2);
}

namespace {

// A linear layer of a program's own, whose product is `matmul`, `einsum` or `linear`.
class OwnLinear : public Module {
 public:
  explicit OwnLinear(std::string by) : Module("OwnLinear"), by_(std::move(by)) {}
  const Tensor weight = add_parameter("weight", normal({edge_width, edge_width}),
                                      Role::linear_weight);

 private:
  Tensor forward(const Tensor& x) override {
    if (by_ == "linear") return linear(x, weight);
    if (by_ == "einsum") return einsum("bi,oi->bo", {x, weight});
    return matmul(x, weight.t());
  }
  std::string by_;
};

}  // namespace

TEST_CASE("rank: products with a cut weight" * doctest::skip()) {
  const Group world = launch_from_env().group();
  for (const char* strategy : {"fp32", "bf16", "fp16_naive"})
    for (const SplitStyle style : {SplitStyle::row, SplitStyle::column})
      for (const char* by : {"matmul", "einsum", "linear"}) {
        CAPTURE(strategy);
        CAPTURE(by);
        const LayerPlan plan = {.style = style, .gather = style == SplitStyle::column};
        Booster booster({.plugin = HybridParallelPlugin(
                             {.tp_size = 2, .tensor_plan = {{"0", plan}}}, world),
                         .mixed_precision = strategy});
        const Model model = Sequential({OwnLinear(by), Linear(edge_width, 2)});
        auto [net, opt] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
        const std::string error = error_of([&, &net = net] { net(ones({2, edge_width})); });
        if (std::string(by) == "linear") CHECK(error == "");
        else CHECK(contains(error, "an argument is a weight of which each rank has a part"));
      }
}
TEST_CASE("matmul and einsum refuse a weight that is cut, in every precision") {
  run_ranks("rank: products with a cut weight", 2);
}
