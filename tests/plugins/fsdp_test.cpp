// Parameters that ranks keep in parts: their cost, errors, and models of unusual shapes.
#include "booster/booster.h"
#include "tests/booster/temporary_folder.h"
#include "tests/error_of.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <random>

using namespace booster;

namespace {

constexpr int64_t block_width = 256, depth = 8;

// Blocks of equal size, so that the model consists of its blocks only.
Model blocks(int64_t features = block_width) {
  std::vector<Model> layers;
  for (int64_t i = 0; i < depth; ++i) layers.push_back(Linear(features, features, {.bias = false}));
  return Sequential(layers);
}

int64_t bytes_of(const Model& model) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : model.parameters()) bytes += tensor.bytes();
  return bytes;
}

MemoryUse use_of(const std::string& tag) {
  for (const MemoryUse& use : memory_use())
    if (use.tag == tag) return use;
  return {.tag = tag};
}

// Compares the bytes of `what` with a formula.
void check_bytes(const std::string& what, int64_t got, double formula) {
  INFO(what, " got ", got, ", formula ", formula);
  CHECK(static_cast<double>(got) <= 1.1 * formula);
  CHECK(static_cast<double>(got) >= 0.9 * formula);
}

void measure(const std::string& name, const Choice<Plugin>& plugin, double parameters,
             double gradient_peak) {
  manual_seed(1);
  Model model = blocks();
  const auto whole = static_cast<double>(bytes_of(model));
  Booster booster({.plugin = plugin});
  auto [net, optimizer] = booster.boost(model, AdamW(model.parameters(), {.lr = 0.01}));
  for (int step = 0; step < 2; ++step) {
    optimizer.zero_grad();
    reset_peak_bytes();
    booster.backward(mean(net(ones({2, block_width}))), optimizer);
    check_bytes(name + " gradients", use_of("gradients").live_bytes, whole / 4);
    CHECK(static_cast<double>(use_of("gradients").peak_bytes) <= 1.1 * gradient_peak * whole);
    optimizer.step();
  }
  check_bytes(name + " parameters", use_of("parameters").live_bytes, parameters * whole);
  check_bytes(name + " optimizer state", use_of("optimizer state").live_bytes, 2 * whole / 4);
}

void measure_all() {
  const Group world = launch_from_env().group();
  const double block = 1.0 / depth;
  measure("zero 1", LowLevelZeroPlugin({.stage = 1, .reduce_bucket_size_in_m = 0.01}, world), 1,
          1 + 0.25 + 4 * block);
  // Messages in flight are whole, and so are their parts.
  measure("zero 2", LowLevelZeroPlugin({.stage = 2, .reduce_bucket_size_in_m = 0.01}, world), 1,
          0.25 + 6 * block);
  measure("fsdp", FsdpPlugin({}, world), 0.25, 0.25 + 6 * block);
}

// No stage of training holds more than a part of the model and a few of its blocks.
void train_large() {
  const Group world = launch_from_env().group();
  manual_seed(4);
  const auto want = blocks().parameters()[3].tensor.to_vector<float>();
  empty_cache();
  const int64_t before = allocator_stats().live_bytes;
  reset_peak_bytes();
  manual_seed(4);
  Model model;
  {
    const LazyInit no_memory;
    model = blocks();
  }
  const auto whole = static_cast<double>(bytes_of(model));
  const auto peak = [&] {
    return static_cast<double>(allocator_stats().peak_bytes - before) / whole;
  };
  Booster booster({.plugin = FsdpPlugin({}, world)});
  auto [net, optimizer] = booster.boost(model, SGD(model.parameters(), {.lr = 0.01}));
  CHECK(peak() < 0.25 + 3.0 / depth);
  booster.backward(mean(net(ones({2, block_width}))), optimizer);
  optimizer.step();
  CHECK(peak() < 0.5 + 5.0 / depth);
  optimizer.zero_grad();
  Tensor third = model.parameters()[3].tensor;
  const WholeParameters scope(net);
  auto now = third.to_vector<float>();
  CHECK(now.size() == want.size());
  double far = 0;
  for (size_t i = 0; i < now.size(); ++i) far = std::max(far, std::abs(0.0 + now[i] - want[i]));
  CHECK(far > 0);
  CHECK(far < 0.01);
}

// A loss with a penalty on a weight, outside the model.
void use_whole() {
  const Group world = launch_from_env().group();
  manual_seed(1);
  Model model = blocks(16), alone = blocks(16);
  Booster booster({.plugin = FsdpPlugin({}, world)}),
      one({.plugin = SinglePlugin({.on_every_rank = true})});
  auto [net, optimizer] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  for (size_t i = 0; i < model.parameters().size(); ++i) {
    const WholeParameters scope(net);
    alone.parameters()[i].tensor.detach().copy_(model.parameters()[i].tensor.detach());
  }
  auto [net1, optimizer1] = one.boost(alone, SGD(alone.parameters(), {.lr = 0.1}));
  const Tensor weight = model.parameters()[0].tensor, weight1 = alone.parameters()[0].tensor;
  const std::string refusal = error_of([&] { weight.to_vector<float>(); });
  CHECK(refusal.find("0.weight is spread over ranks") != std::string::npos);
  CHECK(refusal.find("WholeParameters") != std::string::npos);
  CHECK(refusal.find("an option wrap") != std::string::npos);
  for (int step = 0; step < 3; ++step) {
    const auto loss = [&](const BoostedModel& of, const Tensor& penalised) {
      return sum(of(ones({2, 16}))) + sum(penalised * penalised);
    };
    one.backward(loss(net1, weight1), optimizer1);
    optimizer1.clip_grad_by_norm(1);
    {
      const WholeParameters scope(net);
      booster.backward(loss(net, weight), optimizer);
      optimizer.clip_grad_by_norm(1);
      if (step == 1) {  // values written meanwhile are kept
        const NoGradGuard no_grad;
        Tensor(weight).mul_(0.5);
        Tensor(weight1).mul_(0.5);
      }
      optimizer.step();
      weight.to_vector<float>();  // still there
    }
    optimizer1.step();
    optimizer.zero_grad();
    optimizer1.zero_grad();
  }
  const WholeParameters scope(net);
  for (size_t i = 0; i < model.parameters().size(); ++i) {
    const auto got = model.parameters()[i].tensor.to_vector<double>(),
               want = alone.parameters()[i].tensor.to_vector<double>();
    for (size_t k = 0; k < got.size(); ++k)
      REQUIRE(got[k] == doctest::Approx(want[k]).epsilon(1e-4));
  }
}

// Modules used in any order, any number of times, under one or two names, and partly frozen.
struct DrawnModel {
  int modules = 3;
  std::vector<int> order;   // of calls
  std::vector<bool> frozen; // by parameter
  bool shares = false;      // the last module is the first one
  FsdpOptions options;
};

class Odd : public Module {
 public:
  explicit Odd(const DrawnModel& drawn) : Module("Odd"), order_(drawn.order) {
    std::shared_ptr<Sequential> first;
    for (int i = 0; i < drawn.modules; ++i) {
      const bool shared = drawn.shares && i == drawn.modules - 1;
      auto part = shared ? first : std::make_shared<Sequential>(std::vector<Model>{
                                       Linear(width, width), LayerNorm(width), GELU()});
      if (!first) first = part;
      parts_.push_back(&add_existing("part" + std::to_string(i), part));
    }
    scale_ = add_parameter("scale", ones({width}));
  }

  static constexpr int64_t width = 5;  // parts of uneven sizes

 private:
  Tensor forward(const Tensor& x) override {
    Tensor y = x * scale_;
    for (const int i : order_) y = y + (*parts_[static_cast<size_t>(i)])(y);
    return y;
  }

  std::vector<int> order_;
  std::vector<Module*> parts_;
  Tensor scale_;
};

DrawnModel draw(int n, int ranks) {
  std::mt19937 random(static_cast<uint32_t>(n));
  const auto up_to = [&](int last) {
    return static_cast<int>(random() % static_cast<uint32_t>(last + 1));
  };
  DrawnModel drawn;
  drawn.modules = 1 + up_to(3);
  drawn.shares = drawn.modules > 1 && up_to(2) == 0;
  for (int i = 1 + up_to(4); i > 0; --i) drawn.order.push_back(up_to(drawn.modules - 1));
  const char* patterns[] = {"part*", "part0", "*.0", "*"};
  if (up_to(1) == 1) drawn.options.wrap = {patterns[up_to(3)]};
  drawn.options.prefetch = up_to(3);
  drawn.options.recompute = up_to(3) == 0;
  const int sizes[] = {1, 2, 4};
  if (ranks == 4 && up_to(1) == 1) {
    drawn.options.sharding = "hybrid";
    drawn.options.shard_size = sizes[up_to(2)];
  }
  for (int i = 0; i < 64; ++i) drawn.frozen.push_back(up_to(3) == 0);
  return drawn;
}

// Returns the weights after some steps, in one process or sharded.
std::vector<double> train_parts(const DrawnModel& drawn, const Choice<Plugin>& plugin, int rank,
                                int ranks) {
  manual_seed(9);
  Model model = Odd(drawn);
  Parameters used;
  {  // freezes everything outside the loss
    const auto loss = sum(model(ones({1, Odd::width})));
    loss.backward();
    size_t i = 0;
    for (auto& [name, tensor] : model.parameters()) {
      const bool trains = tensor.grad().defined() && !(drawn.frozen[i++] && name != "scale");
      tensor.requires_grad_(trains);
      if (trains) used.push_back({name, tensor});
    }
    model.zero_grad();
  }
  Booster booster({.plugin = plugin});
  auto [net, optimizer] = booster.boost(model, AdamW(used, {.lr = 0.01, .eps = 1e-3}));
  constexpr int64_t batch = 12;
  for (int step = 0; step < 4; ++step) {
    Generator generator(static_cast<uint64_t>(step));
    const Tensor all = uniform({batch, Odd::width}, -1, 1, {}, generator);
    const int64_t rows = batch / ranks;
    const Tensor x = untracked::narrow(all, 0, rank * rows, rows).clone();
    optimizer.zero_grad();
    const Tensor loss = mse_loss(net(x), zeros({rows, Odd::width}));
    if (step == 1) {  // the model is used between passes
      const NoGradGuard no_grad;
      net(x);
    }
    booster.backward(loss, optimizer);
    optimizer.clip_grad_by_norm(0.5);
    optimizer.step();
  }
  std::vector<double> weights;
  const WholeParameters scope(net);
  for (const auto& [name, tensor] : model.parameters()) {
    const auto values = tensor.to_vector<double>();
    weights.insert(weights.end(), values.begin(), values.end());
  }
  return weights;
}

void train_odd() {
  const World world = launch_from_env();
  for (int n = 0; n < 60; ++n) {
    INFO("model ", n);
    const DrawnModel drawn = draw(n, world.size);
    const auto want = train_parts(drawn, SinglePlugin({.on_every_rank = true}), 0, 1);
    const auto got =
        train_parts(drawn, FsdpPlugin(drawn.options, world.group()), world.rank, world.size);
    REQUIRE(got.size() == want.size());
    double far = 0;
    for (size_t i = 0; i < want.size(); ++i) far = std::max(far, std::abs(got[i] - want[i]));
    CHECK(far < 1e-5);
  }
}

}  // namespace

TEST_CASE("rank: memory of ZeRO" * doctest::skip()) { measure_all(); }
TEST_CASE("rank: large model" * doctest::skip()) { train_large(); }
TEST_CASE("rank: whole parameters" * doctest::skip()) { use_whole(); }
TEST_CASE("rank: odd models" * doctest::skip()) { train_odd(); }

TEST_CASE("each rank of ZeRO 1, 2 and fsdp keeps what the formula says") {
  run_ranks("rank: memory of ZeRO", 4);
}
TEST_CASE("fsdp trains a model that no rank could hold") { run_ranks("rank: large model", 4); }
TEST_CASE("parameters that are in parts refuse to be used, but for WholeParameters") {
  run_ranks("rank: whole parameters", 2);
}
TEST_CASE("fsdp trains models of any shape as one process does") {
  for (const int ranks : {2, 3, 4}) run_ranks("rank: odd models", ranks);
}
