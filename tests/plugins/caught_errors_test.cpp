// A program may catch a pass's error on all ranks and continue. What follows is right or refused,
// and no rank waits for one that gave up.
#include "tests/error_of.h"
#include "tests/parallel/ranks.h"
#include "tests/plugins/pipeline/stages_plugin.h"
#include "tests/plugins/small_vit.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

using namespace booster;
using namespace booster::testing;

namespace {

// A hook in a split layer throws while `throws` is set.
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

TEST_CASE("rank: a stage that catches its error" * doctest::skip()) {
  const World world = launch_from_env();
  const Model model = Sequential({Linear(6, 6), Linear(6, 6)});
  const Criterion criterion("unwilling",
                            [](const Tensor&, const Tensor&) -> Tensor { fail("no"); });
  Booster booster({.plugin = StagesPlugin(world.group(), {.num_microbatches = 2})});
  auto [net, optimizer, loss] =
      booster.boost(model, SGD(model.parameters(), {.lr = 0.1}), criterion);
  const std::string error = error_of([&, &net = net, &loss = loss, &optimizer = optimizer] {
    train_on(ones({4, 6}), ones({4, 6}), booster, net, loss, optimizer);
  });
  const std::filesystem::path told = test_folder() + "/told";
  if (world.rank == 0) {
    CHECK(contains(error, "gave up: no"));
    touch("told");
  } else {
    CHECK(contains(error, "no"));
    while (!std::filesystem::exists(told))
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}
TEST_CASE("a stage that fails tells the others, also where the program catches it and lives on") {
  CHECK(failures(Ranks("rank: a stage that catches its error", 2).wait(60)) == "");
}

TEST_CASE("rank: a step behind half a backward pass" * doctest::skip()) {
  const Model model = Sequential({Linear(6, 6), Linear(6, 3)});
  bool throws = true;
  register_grad_hook(model.parameters()[0].tensor, [&](const Tensor&) -> Tensor {
    if (throws) fail("no");
    return {};
  });
  Booster booster({.plugin = FsdpPlugin()});
  auto [net, optimizer] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  const auto go_back = [&, &net = net, &optimizer = optimizer] {
    booster.backward(sum(net(ones({2, 6}))), optimizer);
  };
  CHECK(error_of(go_back) == "no");
  CHECK(contains(error_of([&, &optimizer = optimizer] { optimizer.step(); }),
                 "optimizer.step: a backward pass failed"));
  CHECK(contains(error_of([&, &optimizer = optimizer] { optimizer.clip_grad_by_norm(1); }),
                 "want zero_grad first"));
  throws = false;
  optimizer.zero_grad();
  go_back();
  CHECK(optimizer.step().grad_norm() > 0);
}
TEST_CASE("gradients of a backward pass that failed are not stepped with") {
  CHECK(failures(Ranks("rank: a step behind half a backward pass", 2).wait(60)) == "");
}

TEST_CASE("rank: parameters of a pass that failed" * doctest::skip()) {
  const Model model = Sequential({Linear(6, 6), Linear(6, 3)});
  bool throws = false;
  const auto throw_on_demand = [&](Module&, const Tensor&, const Tensor&) -> Tensor {
    if (throws) fail("no");
    return {};
  };
  model->named_modules().back().second->register_forward_hook(throw_on_demand);
  Booster booster({.plugin = FsdpPlugin({.wrap = {"0", "1"}})});
  auto [net, optimizer] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  const auto are_away = [&] {
    return std::ranges::all_of(model.parameters(), [](const NamedTensor& held) {
      return contains(error_of([&] { held.tensor.to_vector<float>(); }), "is spread over ranks");
    });
  };
  const auto train = [&, &net = net, &optimizer = optimizer] {
    optimizer.zero_grad();
    booster.backward(sum(net(ones({2, 6}))), optimizer);
    optimizer.step();
  };
  train();
  CHECK(are_away());
  throws = true;
  CHECK(error_of(train) == "no");
  CHECK(are_away());
  throws = false;
  train();
  CHECK(are_away());
}
TEST_CASE("fsdp gives back the parameters that it gathered for a pass that failed") {
  CHECK(failures(Ranks("rank: parameters of a pass that failed", 2).wait(60)) == "");
}
