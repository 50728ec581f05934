// Dropout with layers, stages or tokens split over ranks.
#include "tests/plugins/small_vit.h"
#include "tests/plugins/spread_runs.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

using namespace booster;
using namespace booster::testing;

namespace {

// Dropout in a split layer differs between ranks; what all ranks share stays equal.
void check_dropout(const HybridParallelOptions& options, bool everywhere) {
  const Group world = launch_from_env().group();
  manual_seed(3 + world.rank());  // whatever the program did before
  Model model = small_vit();
  Booster booster({.plugin = HybridParallelPlugin(options, world)});
  auto [net, optimizer] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  std::vector<Tensor> dropped;
  for (const auto& [name, module] : model->named_modules())
    if (name == (everywhere ? "blocks.0.mlp.drop2" : "blocks.0.mlp.drop1"))
      module->register_forward_hook([&](Module&, const Tensor& x, const Tensor& y) {
        dropped.push_back(cast(equal(y, 0) * not_equal(x, 0), DType::f32));
        return Tensor();
      });
  manual_seed(9);
  const Tensor x = uniform({2, 3, 48, 48}, -1, 1);
  for (int step = 0; step < 3; ++step) {
    if (world.rank() == 1) uniform({5});  // a rank draws separately
    booster.backward(sum(net(x)), optimizer);
    optimizer.step();
    optimizer.zero_grad();
  }
  CHECK(dropped.size() == 3);
  Tensor mask = dropped[2].clone();
  CHECK(sum(mask).item() > 0);
  auto of_rank_0 = mask.to_vector<float>();
  world.broadcast(of_rank_0);
  CHECK((mask.to_vector<float>() == of_rank_0) == (world.rank() == 0));
  for (const NamedTensor& parameter : model.parameters()) {
    if (parameter.name != "norm.weight" && parameter.name != "blocks.1.mlp.fc2.bias") continue;
    auto same = parameter.tensor.to_vector<float>();
    world.broadcast(same);
    CHECK(parameter.tensor.to_vector<float>() == same);
  }
}

// The same in a stage that begins between two blocks.
void check_dropout_of_stages(const std::string& mode) {
  const World world = launch_from_env();
  const bool by_tensor = mode == "split_gather";
  Model model = small_vit();
  const PluginMaker plugin = HybridParallelPlugin({.tp_size = by_tensor ? 2 : 1,
                                                   .pp_size = 2,
                                                   .sp_size = by_tensor ? 1 : 2,
                                                   .sequence_parallelism_mode = mode,
                                                   .stages = {2, 2}},
                                                  world.group());
  const Mesh mesh = plugin()->mesh();
  Booster booster({.plugin = plugin});
  auto [net, optimizer] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
  std::vector<float> dropped;  // by the first dropout layer of the stage's block
  for (const auto& [name, module] : model->named_modules())
    if (name == "blocks.0.attn.proj_drop" || name == "blocks.1.attn.proj_drop")
      module->register_forward_hook([&](Module&, const Tensor& x, const Tensor& y) {
        const auto drops = cast(equal(y, 0) * not_equal(x, 0), DType::f32).to_vector<float>();
        dropped.insert(dropped.end(), drops.begin(), drops.end());
        return Tensor();
      });
  struct Batch {
    Tensor input, target;
  } const batch = {uniform({2, 3, 48, 48}, -1, 1), zeros({2, 5})};
  const Batch* at = &batch;
  booster.execute_pipeline(at, net, MSELoss(), optimizer);
  CHECK(std::ranges::count(dropped, 1) > 0);
  auto of_neighbour = dropped;
  const std::string axis = by_tensor ? "tensor" : "sequence";
  mesh.group(axis).broadcast(of_neighbour);
  CHECK((dropped == of_neighbour) == (mesh.place(axis) == 0));
}

// Recomputed blocks drop the same elements as the first time.
void check_recomputed_dropout(const HybridParallelOptions& options) {
  std::vector<float> parameters[2];
  for (const bool recompute : {false, true}) {
    manual_seed(3);
    Model model = small_vit();
    HybridParallelOptions how = options;
    how.recompute = recompute;
    Booster booster({.plugin = HybridParallelPlugin(how, launch_from_env().group())});
    auto [net, optimizer] = booster.boost(model, SGD(model.parameters(), {.lr = 0.1}));
    manual_seed(9);
    const Tensor x = uniform({2, 3, 48, 48}, -1, 1);
    booster.backward(sum(net(x)), optimizer);
    optimizer.step();
    for (const NamedTensor& parameter : model.parameters()) {
      const auto some = parameter.tensor.to_vector<float>();
      parameters[recompute].insert(parameters[recompute].end(), some.begin(), some.end());
    }
  }
  // Not bitwise equal: recomputed blocks do not use some fused functions. A different mask would
  // change the values by far more.
  REQUIRE(parameters[0].size() == parameters[1].size());
  double farthest = 0;
  for (size_t i = 0; i < parameters[0].size(); ++i)
    farthest = std::max(farthest, std::abs(double{parameters[0][i]} - parameters[1][i]));
  CHECK(farthest < 1e-5);
}

}  // namespace

TEST_CASE("rank: dropout" * doctest::skip()) {
  check_dropout({.tp_size = 2}, false);
  check_dropout({.tp_size = 2, .sequence_parallelism_mode = "split_gather"}, false);
  check_dropout({.tp_size = 2, .sequence_parallelism_mode = "split_gather"}, true);
  check_dropout({.sp_size = 2, .sequence_parallelism_mode = "all_to_all"}, true);
  check_dropout({.sp_size = 2, .sequence_parallelism_mode = "ring_attn"}, true);
}
TEST_CASE("rank: dropout of stages" * doctest::skip()) {
  for (const char* mode : {"split_gather", "all_to_all", "ring_attn"}) {
    INFO(mode);
    check_dropout_of_stages(mode);
  }
}
TEST_CASE("rank: recomputed dropout" * doctest::skip()) {
  check_recomputed_dropout({.tp_size = 2});
  check_recomputed_dropout({.tp_size = 2, .sequence_parallelism_mode = "split_gather"});
  check_recomputed_dropout({.sp_size = 2, .sequence_parallelism_mode = "all_to_all"});
  check_recomputed_dropout({.sp_size = 2, .sequence_parallelism_mode = "ring_attn"});
}

TEST_CASE("dropout differs where layers are cut and agrees where they are not") {
  run_ranks("rank: dropout", 2);
  run_ranks("rank: dropout of stages", 4);
  run_ranks("rank: recomputed dropout", 2);
}
