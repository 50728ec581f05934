// The time that stages are idle, measured on layers that sleep: these cost the same however many
// ranks share a core.
#include "core/autograd/tape.h"
#include "tests/parallel/ranks.h"
#include "tests/plugins/pipeline/stages_plugin.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <thread>

using namespace booster;
using namespace booster::testing;

namespace {

// Of a microbatch in one chunk of two, or in half a stage.
constexpr double forward_ms = 10, input_ms = 12, weight_ms = 8;

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
    double best = 1e9;
    for (int round = 0; round < 5; ++round) {
      world.group().barrier();
      const auto start = std::chrono::steady_clock::now();
      train_on(rows, rows, booster, net, loss, optimizer);
      const std::chrono::duration<double, std::milli> taken =
          std::chrono::steady_clock::now() - start;
      best = std::min(best, taken.count());
    }
    const double work = microbatches * 2 * layer, want = work + idle;
    if (world.rank == 0)
      fmt::print("| {} | {} | {:.1f} ms | {:.1f} ms | {:.3f} | {:.3f} |\n", name_of(style),
                 world.size, best, want, 1 - work / best, 1 - work / want);
    INFO(name_of(style), ": ", best, " ms, want ", want);
    CHECK(best >= want);
    CHECK(best <= 1.1 * want);
  }
}
TEST_CASE("batches take the time that theory says, with the bubble of their style") {
  const std::vector<RankResult> results = Ranks("rank: bubbles", 3).wait(100);
  CHECK(failures(results) == "");
  fmt::print("{}", results[0].output);
}
