// A program may catch an error of a pass on all ranks and go on: what it does then is right, or
// refused, and nobody waits for a rank that gave up.
#include "tests/error_of.h"
#include "tests/parallel/ranks.h"
#include "tests/plugins/pipeline/stages_plugin.h"
#include "tests/plugins/small_vit.h"

#include <doctest/doctest.h>

#include <chrono>
#include <filesystem>
#include <thread>

using namespace booster;
using namespace booster::testing;

namespace {

// A hook of the layer that works on parts throws while this is set.
void throw_in_parts(const Model& model, const bool& throws) {
  for (const auto& [name, module] : model->named_modules())
    if (name == "blocks.0.mlp.drop1")
      module->register_forward_hook([&throws](Module&, const Tensor&, const Tensor&) -> Tensor {
        if (throws) fail("no");
        return {};
      });
}

}  // namespace

TEST_CASE("rank: draws behind an error" * doctest::skip()) {
  const Group world = launch_from_env().group();
  manual_seed(3);
  const Model model = small_vit();
  bool throws = true;
  throw_in_parts(model, throws);
  Booster booster({.plugin = HybridParallelPlugin({.tp_size = 2}, world)});
  auto [net, optimizer] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  const Tensor x = numbers({2, 3, 48, 48}, 1);
  CHECK(error_of([&, &net = net] { net(x); }) == "no");
  CHECK(random_stream() == 0);
  throws = false;
  booster.backward(sum(net(x)), optimizer);
  optimizer.step();
}
TEST_CASE("an error within a pass leaves no random stream behind") {
  run_ranks("rank: draws behind an error", 2);
}
