// Three plugins outside the library agree with one process, in every strategy. The interfaces
// support split layers, pipeline stages and sharded optimizers.
#include "tests/plugins/spread_runs.h"
#include "tests/plugins/toys/chain.h"
#include "tests/plugins/toys/pair.h"
#include "tests/plugins/toys/toy_pipeline.h"
#include "tests/plugins/toys/toy_tensor_parallel.h"
#include "tests/plugins/toys/toy_zero1.h"

#include <doctest/doctest.h>

using namespace booster;
using namespace booster::testing;
using namespace booster::toys;

namespace {

Model chain() {
  return Chain({Linear(features, hidden), LayerNorm(hidden), GELU(), Linear(hidden, hidden), Tanh(),
                Linear(hidden, features)});
}

Spread pipeline(const Group& world) {
  return {.name = "pipeline", .plugin = ToyPipeline(world, 4), .model = chain, .by_pipeline = true};
}

// The infinite gradient occurs on a rank that does not own it.
Spread zero1(const Group& world) {
  return {.name = "zero1",
          .plugin = ToyZero1(world),
          .model = chain,
          .shares = world.size(),
          .share = world.rank(),
          .breaking_rank = 0};
}

Spread tensor_parallel(const Group& world) {
  const ToyTensorParallel plugin(world, 2);
  const auto pairs = [] {
    return Sequential({Pair(features, hidden), Pair(features, hidden)});
  };
  return {.name = "tensor",
          .plugin = plugin,
          .model = pairs,
          .shares = plugin.mesh().size("data"),
          .share = plugin.mesh().place("data"),
          .broken = "1.up.weight"};
}

}  // namespace

TEST_CASE("rank: split layers" * doctest::skip()) { train_all(tensor_parallel); }
TEST_CASE("rank: stages" * doctest::skip()) { train_all(pipeline); }
TEST_CASE("rank: sharded optimizers" * doctest::skip()) { train_all(zero1); }

TEST_CASE("layers split over two ranks train as in one process in every strategy") {
  run_ranks("rank: split layers", 2);
}
TEST_CASE("split layers and data parallelism together train as in one process") {
  run_ranks("rank: split layers", 4);
}
TEST_CASE("two stages of a pipeline train as in one process in every strategy") {
  run_ranks("rank: stages", 2);
}
TEST_CASE("optimizers sharded over two ranks train as in one process in every strategy") {
  run_ranks("rank: sharded optimizers", 2);
}
TEST_CASE("optimizers sharded over three ranks train as in one process in every strategy") {
  run_ranks("rank: sharded optimizers", 3);
}
