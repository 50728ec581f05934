// What layers cost and the time that stages are idle, measured on layers that sleep: these cost the
// same however many ranks share a core.
#include "core/autograd/tape.h"
#include "plugins/pipeline/link_costs.h"
#include "tests/parallel/ranks.h"
#include "tests/plugins/pipeline/stages_plugin.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

using namespace booster;
using namespace booster::testing;

namespace {

// Of a microbatch in one chunk of two, or in half a stage.
constexpr double forward_ms = 20, input_ms = 24, weight_ms = 16;

void sleep_ms(double time) {
  std::this_thread::sleep_for(std::chrono::duration<double, std::milli>(time));
}

// y = x, at the price of a layer.
class Sleeper : public Module {
 public:
  Sleeper() : Module("Sleeper"), weight(add_parameter("weight", ones({1}))) {}
  const Tensor weight;

 private:
  Tensor forward(const Tensor& x) override {
    sleep_ms(forward_ms);
    return record(x.detach().clone(), "sleep", {x, weight}, [](const Tensor& g, Gradients& d) {
      sleep_ms(input_ms);
      if (d.wanted(0)) d[0] = g;
      d.compute(1, [] {
        sleep_ms(weight_ms);
        return ones({1});
      });
    });
  }
};

struct Measured {
  PipelineStyle style;
  int chunks;
  double theory;  // time that a stage is idle in a batch
};

}  // namespace

TEST_CASE("rank: bubbles" * doctest::skip()) {
  const World world = launch_from_env();
  constexpr int microbatches = 6;
  const double layer = forward_ms + input_ms + weight_ms, ramps = world.size - 1;
  const Measured all[] = {
      {PipelineStyle::gpipe, 1, ramps * 2 * layer},
      {PipelineStyle::one_f_one_b, 1, ramps * 2 * layer},
      {PipelineStyle::interleaved, 2, ramps * layer},
      {PipelineStyle::zero_bubble, 1, ramps * 2 * (forward_ms + input_ms - weight_ms)}};
  for (const auto& [style, chunks, idle] : all) {
    Sequential model;
    for (int i = 0; i < 2 * world.size; ++i) model.append(Sleeper());
    Booster booster(
        {.plugin = StagesPlugin(world.group(), {.style = style,
                                                .num_microbatches = microbatches,
                                                .num_model_chunks = chunks})});
    const Model sleepers(std::move(model));
    auto [net, optimizer, loss] =
        booster.boost(sleepers, SGD(sleepers.parameters(), {.lr = 0.1}), mean_of_squares());
    const Tensor rows = ones({microbatches, 4});
    const double work = microbatches * 2 * layer, want = work + idle;
    // The fastest of several: other programs may be at work here.
    std::vector<double> best = {1e9};
    for (int round = 0; round < 12 && best[0] > 1.05 * want; ++round) {
      world.group().barrier();
      const auto start = std::chrono::steady_clock::now();
      train_on(rows, rows, booster, net, loss, optimizer);
      const std::chrono::duration<double, std::milli> taken =
          std::chrono::steady_clock::now() - start;
      best[0] = std::min(best[0], taken.count());
      world.group().broadcast(best);
    }
    if (world.rank == 0)
      fmt::print("| {} | {} | {:.1f} ms | {:.1f} ms | {:.3f} | {:.3f} |\n", name_of(style),
                 world.size, best[0], want, 1 - work / best[0], 1 - work / want);
    INFO(name_of(style), ": ", best[0], " ms, want ", want);
    CHECK(best[0] >= 0.99 * want);  // ranks leave the barrier one after another
    CHECK(best[0] <= 1.1 * want);
  }
}
TEST_CASE("batches take the time that theory says, with the bubble of their style") {
  const std::vector<RankResult> results = Ranks("rank: bubbles", 3).wait(100);
  CHECK(failures(results) == "");
  fmt::print("{}", results[0].output);
}

TEST_CASE("measured costs of links are their times, and leave the model as it was") {
  const Model model = Sequential({Sleeper(), BatchNorm2d(2), Sequential({Identity(), Sleeper()})});
  dynamic_cast<Sequential&>(model.module())[1].eval();
  const std::vector<double> costs = measured_costs(model.module(), ones({1, 2, 2, 2}), 2);
  REQUIRE(costs.size() == 4);
  for (const size_t slow : {0, 3}) CHECK(costs[slow] * 1000 >= forward_ms);
  for (const size_t fast : {1, 2}) CHECK(costs[fast] * 1000 < forward_ms);
  CHECK(model->training());
  CHECK_FALSE(dynamic_cast<Sequential&>(model.module())[1].training());
  CHECK(model.buffers()[0].tensor.to_vector<float>()[0] == 0);
  CHECK(parameter_costs(model.module()) == std::vector<double>{2, 10, 1, 2});
}

TEST_CASE("rank: costs of each rank" * doctest::skip()) {
  const World world = launch_from_env();
  Sequential model;
  for (int i = 0; i < 4; ++i) model.append(Linear(2, 2));
  const Model chain(std::move(model));
  PipelineOptions options = {.num_microbatches = 2, .link_costs = {1, 1, 1, 1}};
  options.link_costs[world.rank == 0 ? 0 : 3] = 10;
  StagesPlugin plugin(world.group(), options);
  plugin.shard(chain, SGD(chain.parameters(), {.lr = 0.1}));
  CHECK(plugin.stages().cut() == StageCut{0, 1, 4});
}
TEST_CASE("ranks whose measured costs differ cut where rank 0 does") {
  CHECK(failures(Ranks("rank: costs of each rank", 2).wait(60)) == "");
}
