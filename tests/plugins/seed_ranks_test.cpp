// Which ranks drop the same elements in dropout.
#include "booster/booster.h"
#include "tests/parallel/ranks.h"

#include <doctest/doctest.h>

using namespace booster;

TEST_CASE("rank: dropped elements" * doctest::skip()) {
  const Group world = launch_from_env().group();
  const Mesh mesh(world, {{"data", 2}, {"tensor", 2}});
  const auto drawn = [&](const Group& ranks) {
    const Tensor mine = uniform({64});
    std::vector<float> first = mine.to_vector<float>();
    ranks.broadcast(first);
    return first == mine.to_vector<float>();
  };
  manual_seed(7);
  CHECK(drawn(world));
  seed_ranks(7, mesh);
  CHECK(drawn(mesh.group("tensor")));
  CHECK(drawn(mesh.group("data")) == (mesh.place("data") == 0));
}

namespace {

// Its output holds which elements a rank dropped.
class Dropping : public Module {
 public:
  Dropping() : Module("Dropping") {}
  Linear& layer = add<Linear>("layer", 4, 4);
  Dropout& drop = add<Dropout>("drop", 0.5);

 private:
  Tensor forward(const Tensor& x) override { return drop(x) + layer(x).sum() * 0; }
};

// Returns whether all ranks of the group dropped the same elements.
bool dropped_alike(const Tensor& y, const Group& ranks) {
  std::vector<float> mine = y.detach().to_vector<float>(), first = mine;
  ranks.broadcast(first);
  std::vector<int64_t> equal = {first == mine};
  ranks.all_reduce(equal, CollectiveOp::min);
  return equal[0] == 1;
}

// Drops in three passes: two in training, one of them recomputed, and one in which only the first
// plugin's own work lies between. Gradients of recomputed passes show the second run's elements.
void check_dropped(const Choice<Plugin>& plugin) {
  Booster booster({.plugin = plugin});
  const Mesh mesh = booster.plugin().mesh();
  for (const bool recomputes : {false, true}) {
    const Model model = Dropping();
    model->set_recompute(recomputes);
    auto [net, opt] = booster.boost(model, SGD(model.parameters(), {.lr = 0.0}));
    const Tensor x = ones({2, 64, 4}).requires_grad_();
    const Tensor y = net(x);
    CHECK(dropped_alike(y, mesh.group("data")) == (mesh.size("data") == 1));
    if (mesh.size("tensor") > 1) CHECK(dropped_alike(y, mesh.group("tensor")));
    booster.backward(y.sum(), opt);
    CHECK(x.grad().to_vector<float>() == y.detach().to_vector<float>());
    const Tensor own = uniform({8});  // outside of passes ranks draw alike
    CHECK(dropped_alike(own, mesh.world()));
  }
}

}  // namespace

TEST_CASE("rank: dropout by default" * doctest::skip()) {
  check_dropped("torch_ddp");
  check_dropped("low_level_zero");
  check_dropped("fsdp");
  check_dropped(HybridParallelPlugin(
      {.tp_size = 2, .dp_size = 2,
       .tensor_plan = {{"layer", {.style = SplitStyle::column, .gather = true}}}}));
}
TEST_CASE("ranks drop different elements of different data by default, also where they recompute") {
  run_ranks("rank: dropout by default", 4);
}

TEST_CASE("seed_ranks lets ranks draw apart where their data differ, and alike where they do not") {
  run_ranks("rank: dropped elements", 4);
}
